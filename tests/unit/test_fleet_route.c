/* Which engine a prompt is sent to: where its beginning was sent, where its first piece points to,
 * where there is least to do; and what a prompt's beginning is. */
#include "engine/fleet_route.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ENGINES = 4, TEXT_BYTES = 8192 };

static char text[TEXT_BYTES];
static const struct engine_domain some = {{1}};

static struct fleet_route_keys keys_of(const struct engine_domain *domain, size_t bytes)
{
    struct fleet_route_keys keys;
    const struct engine_request request = {
        .prompt_kind = ENGINE_PROMPT_TEXT, .text = {text, bytes}, .domain = *domain};
    fleet_route_keys(&request, &keys);
    return keys;
}

static void test_keys_are_of_the_beginning(void **state)
{
    (void)state;
    const struct engine_domain other = {{2}};
    const struct engine_domain none = {{0}};
    memset(text, 'a', sizeof text);
    const struct fleet_route_keys whole = keys_of(&some, 8 * FLEET_ROUTE_PIECE);
    assert_int_equal(whole.count, 4); /* behind 1, 2, 4 and 8 pieces */
    assert_int_equal(keys_of(&some, FLEET_ROUTE_PIECE - 1).count, 0);
    assert_int_equal(keys_of(&none, TEXT_BYTES).count, 0);
    text[5 * FLEET_ROUTE_PIECE] = 'b';
    const struct fleet_route_keys later = keys_of(&some, 8 * FLEET_ROUTE_PIECE);
    const struct fleet_route_keys theirs = keys_of(&other, 8 * FLEET_ROUTE_PIECE);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(whole.keys[i] == later.keys[i], i < 3);
        assert_true(later.keys[i] != theirs.keys[i]);
    }
    text[5 * FLEET_ROUTE_PIECE] = 'a';
}

/* Messages are cut nowhere else than texts: two lists that look alike put together are not. */
static void test_keys_of_messages_and_tokens(void **state)
{
    (void)state;
    const struct engine_message one[] = {{SLICE("user"), {text, 600}, {NULL, 0}},
                                         {SLICE("user"), {text, 0}, {NULL, 0}}};
    const struct engine_message two[] = {{SLICE("user"), {text, 0}, {NULL, 0}},
                                         {SLICE("user"), {text, 600}, {NULL, 0}}};
    struct engine_request request = {
        .prompt_kind = ENGINE_PROMPT_CHAT, .messages = one, .message_count = 2, .domain = some};
    struct fleet_route_keys first;
    struct fleet_route_keys second;
    fleet_route_keys(&request, &first);
    request.messages = two;
    fleet_route_keys(&request, &second);
    assert_int_equal(first.count, 2);
    assert_int_equal(second.count, 2);
    assert_true(first.keys[0] != second.keys[0]);
    const uint32_t tokens[FLEET_ROUTE_PIECE] = {7};
    const struct engine_request ids = {.prompt_kind = ENGINE_PROMPT_TOKENS,
                                       .tokens = tokens,
                                       .token_count = FLEET_ROUTE_PIECE,
                                       .domain = some};
    fleet_route_keys(&ids, &first);
    assert_int_equal(first.count, 3); /* four pieces */
}

static void test_longest_beginning_decides(void **state)
{
    (void)state;
    struct fleet_route route;
    const uint32_t loads[ENGINES] = {0};
    assert_int_equal(fleet_route_init(&route, ENGINES), STATUS_OK);
    const struct fleet_route_keys system = keys_of(&some, FLEET_ROUTE_PIECE);
    const struct fleet_route_keys talk = keys_of(&some, 4 * FLEET_ROUTE_PIECE);
    const uint32_t home = fleet_route_choose(&route, &system, loads);
    fleet_route_note(&route, &system, home);
    assert_int_equal(fleet_route_choose(&route, &talk, loads), home);
    const uint32_t away = (home + 1) % ENGINES;
    fleet_route_note(&route, &talk, away);
    for (int i = 0; i < 8; i++)
        assert_int_equal(fleet_route_choose(&route, &talk, loads), away);
    fleet_route_deinit(&route);
}

static void test_load_decides_before_all(void **state)
{
    (void)state;
    struct fleet_route route;
    uint32_t loads[ENGINES] = {0};
    assert_int_equal(fleet_route_init(&route, ENGINES), STATUS_OK);
    const struct fleet_route_keys keys = keys_of(&some, 1024);
    const uint32_t home = fleet_route_choose(&route, &keys, loads);
    fleet_route_note(&route, &keys, home);
    loads[home] = FLEET_ROUTE_SLACK;
    assert_int_equal(fleet_route_choose(&route, &keys, loads), home);
    loads[home]++;
    assert_int_not_equal(fleet_route_choose(&route, &keys, loads), home);
    for (int i = 0; i < ENGINES; i++)
        loads[i] += 100;
    assert_int_equal(fleet_route_choose(&route, &keys, loads), home);
    fleet_route_deinit(&route);
}

/* All bounded: whatever comes, the difference between two engines stays small, and short prompts
 * are spread evenly. */
static void test_loads_stay_near(void **state)
{
    (void)state;
    struct fleet_route route;
    uint32_t loads[ENGINES] = {0};
    assert_int_equal(fleet_route_init(&route, ENGINES), STATUS_OK);
    const struct fleet_route_keys same = keys_of(&some, 1024);
    const struct fleet_route_keys none = {.count = 0};
    for (int i = 0; i < 400; i++) {
        const uint32_t engine = fleet_route_choose(&route, &same, loads);
        fleet_route_note(&route, &same, engine);
        loads[engine]++;
    }
    for (int i = 0; i < ENGINES; i++)
        assert_in_range(loads[i], 50, 160);
    memset(loads, 0, sizeof loads);
    for (int i = 0; i < 400; i++)
        loads[fleet_route_choose(&route, &none, loads)]++;
    for (int i = 0; i < ENGINES; i++)
        assert_int_equal(loads[i], 100);
    fleet_route_deinit(&route);
}

/* A stranger's keys push out what was known, and a prompt still finds the same engine. */
static void test_flood_costs_nothing(void **state)
{
    (void)state;
    struct fleet_route route;
    const uint32_t loads[ENGINES] = {0};
    assert_int_equal(fleet_route_init(&route, ENGINES), STATUS_OK);
    const struct fleet_route_keys keys = keys_of(&some, FLEET_ROUTE_PIECE);
    const uint32_t home = fleet_route_choose(&route, &keys, loads);
    uint32_t counts[ENGINES] = {0};
    for (uint32_t i = 0; i < 4 * FLEET_ROUTE_PLACES; i++) {
        struct fleet_route_keys own = {.count = 1};
        own.keys[0] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        const uint32_t engine = fleet_route_choose(&route, &own, loads);
        fleet_route_note(&route, &own, engine);
        counts[engine]++;
    }
    assert_int_equal(fleet_route_choose(&route, &keys, loads), home);
    for (int i = 0; i < ENGINES; i++)
        assert_in_range(counts[i], FLEET_ROUTE_PLACES * 9 / 10, FLEET_ROUTE_PLACES * 11 / 10);
    fleet_route_deinit(&route);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_of_the_beginning),
        cmocka_unit_test(test_keys_of_messages_and_tokens),
        cmocka_unit_test(test_longest_beginning_decides),
        cmocka_unit_test(test_load_decides_before_all),
        cmocka_unit_test(test_loads_stay_near),
        cmocka_unit_test(test_flood_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
