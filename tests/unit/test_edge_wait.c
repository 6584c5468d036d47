/* edge_wait: order, fairness, classes and their floors, bounds at n and n + 1, the window, leaving
 * at any moment, what is told about the time it will take. */
#include "gateway/edge/engines/edge_wait.h"

#include <string.h>

#include "tests/unit/base_kit.h"

enum { ENTRIES = 64, TENANT_MOST = 10, MOST = 25, BYTES_MOST = 1000, TENANT_BYTES_MOST = 600 };

struct one {
    struct edge_wait_entry entry;
    char name[8];
};

static struct loop *loop;
static struct edge_wait *wait;
static struct one ones[ENTRIES];
static char order[512];          /* names in the order of their turns */
static int64_t went_us[ENTRIES]; /* when the n-th had its turn */
static int went;
static int stops_at; /* the loop, behind so many turns; 0: never */
static int refused;
static struct one *leaves; /* taken out by the first that goes */

static void on_go(void *context)
{
    struct one *one = context;
    assert_null(one->entry.client);
    went_us[went++ % ENTRIES] = loop_now_us(loop);
    if (went == stops_at)
        loop_stop(loop);
    size_t length = strlen(order);
    snprintf(order + length, sizeof order - length, "%s", one->name);
    if (leaves != NULL)
        edge_wait_leave(wait, &leaves->entry);
    leaves = NULL;
}

static void on_refused(void *context)
{
    assert_null(((struct one *)context)->entry.client);
    refused++;
}

static void stop(void *context)
{
    loop_stop(context);
}

/* Turns run from zero timers: some rounds of the loop see them all. */
static void run_for_ms(uint32_t ms)
{
    struct loop_timer *timer = loop_timer_create(loop, stop, loop);
    loop_timer_arm(timer, ms);
    loop_run(loop);
    loop_timer_destroy(timer);
}

/* Until that many have had their turn in all; five seconds are never needed. */
static void run_until(int count)
{
    stops_at = count;
    if (went < count)
        run_for_ms(5000);
    stops_at = 0;
    assert_int_equal(went, count);
}

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    struct edge_wait_options options = {.loop = loop,
                                        .requests_max = MOST,
                                        .bytes_max = BYTES_MOST,
                                        .tenant_requests_max = TENANT_MOST,
                                        .tenant_bytes_max = TENANT_BYTES_MOST};
    assert_int_equal(edge_wait_create(&wait, &options), STATUS_OK);
    memset(ones, 0, sizeof ones);
    order[0] = '\0';
    refused = went = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    edge_wait_destroy(wait);
    loop_destroy(loop);
    return 0;
}

static const uint8_t hashes[256][16] = {['a'] = {1}, ['b'] = {2}, ['c'] = {3}, ['d'] = {4}};
#define WHO(tenant, NAME) (&(struct edge_wait_who){hashes[(uint8_t)(tenant)], SERVICE_CLASS_##NAME})

static enum status enter_as(int index, char tenant, enum service_class service_class, size_t bytes)
{
    struct one *one = &ones[index];
    const struct edge_wait_who who = {hashes[(uint8_t)tenant], service_class};
    snprintf(one->name, sizeof one->name, "%c%d ", tenant, index);
    one->entry.go = on_go;
    one->entry.refused = on_refused;
    one->entry.context = one;
    return edge_wait_enter(wait, &one->entry, &who, bytes);
}

/* The most urgent class: no part of the bounds is kept from it. */
static enum status enter(int index, char tenant, size_t bytes)
{
    return enter_as(index, tenant, SERVICE_CLASS_REALTIME, bytes);
}

static void test_tenants_take_turns(void **state)
{
    (void)state;
    assert_true(edge_wait_is_needed(wait, WHO('d', REALTIME))); /* shut at the start */
    assert_int_equal(enter(5, 'a', 1), STATUS_OK);
    edge_wait_leave(wait, &ones[5].entry); /* has had its turn, and will wait again */
    for (int i = 0; i < 3; i++)
        assert_int_equal(enter(i, 'a', 1), STATUS_OK);
    assert_int_equal(enter(3, 'b', 1), STATUS_OK);
    assert_int_equal(enter(4, 'c', 1), STATUS_OK);
    edge_wait_leave(wait, &ones[1].entry);
    assert_int_equal(enter(1, 'a', 1), STATUS_OK); /* back in its place, between others */
    assert_int_equal(enter(5, 'a', 1), STATUS_OK);
    run_for_ms(2);
    assert_string_equal(order, "");
    edge_wait_open(wait);
    assert_string_equal(order, ""); /* never inside a call */
    assert_true(edge_wait_is_needed(wait, WHO('d', REALTIME)));
    run_until(6);
    assert_string_equal(order, "a5 b3 c4 a0 a1 a2 ");
    assert_false(edge_wait_is_needed(wait, WHO('d', REALTIME)));
}

/* A tenant for which alone the engine is full has no turns for a while, whatever it adds; others
 * do, and ask a full engine at once. */
static void test_one_tenant_is_held(void **state)
{
    (void)state;
    edge_wait_hold(wait, &ones[0].entry, 10); /* does not wait: nothing happens */
    for (int i = 0; i < 2; i++)
        assert_int_equal(enter(i, 'a', 1), STATUS_OK);
    edge_wait_hold(wait, &ones[0].entry, 300);
    for (int i = 2; i < 4; i++)
        assert_int_equal(enter(i, 'b', 1), STATUS_OK);
    assert_int_equal(enter(4, 'a', 1), STATUS_OK);
    assert_int_equal(enter(5, 'c', 1), STATUS_OK);
    edge_wait_hold(wait, &ones[5].entry, 300);
    edge_wait_leave(wait, &ones[5].entry); /* the last of a tenant that is held */
    edge_wait_open(wait);
    run_until(2);
    assert_string_equal(order, "b2 b3 ");
    assert_true(edge_wait_is_needed(wait, WHO('d', REALTIME))); /* not all have had a turn */
    edge_wait_hold(wait, &ones[0].entry, 300);                  /* the engine was asked */
    assert_true(edge_wait_is_needed(wait, WHO('a', REALTIME)));
    assert_false(edge_wait_is_needed(wait, WHO('d', REALTIME)));
    assert_false(edge_wait_is_needed(wait, WHO('d', BATCH)));
    run_until(5);
    assert_string_equal(order, "b2 b3 a0 a1 a4 ");
    assert_true(went_us[2] - went_us[1] > 30000);
    assert_int_equal(enter(6, 'a', 1), STATUS_OK);
    edge_wait_hold(wait, &ones[6].entry, 300);
    edge_wait_refuse_all(wait);
    assert_int_equal(refused, 1);
}

static void test_bounds(void **state)
{
    (void)state;
    int at = 0;
    for (int i = 0; i < TENANT_MOST; i++)
        assert_int_equal(enter(at++, 'a', 0), STATUS_OK);
    assert_int_equal(enter(at, 'a', 0), STATUS_QUEUE_FULL);
    assert_null(ones[at].entry.client);
    for (int i = 0; i < TENANT_MOST; i++)
        assert_int_equal(enter(at++, 'b', 0), STATUS_OK);
    while (at < MOST) {
        assert_int_equal(enter(at, 'c', 0), STATUS_OK);
        at++;
    }
    assert_int_equal(enter(at, 'd', 0), STATUS_BUSY);
    edge_wait_leave(wait, &ones[0].entry); /* a place at once */
    assert_int_equal(enter(at, 'd', 0), STATUS_OK);
    edge_wait_refuse_all(wait);
    assert_int_equal(refused, MOST);
    assert_int_equal(edge_wait_count(wait), 0);
}

static void test_bounds_of_bytes(void **state)
{
    (void)state;
    assert_int_equal(enter(0, 'a', TENANT_BYTES_MOST + 1), STATUS_QUEUE_FULL);
    assert_int_equal(enter(0, 'a', TENANT_BYTES_MOST), STATUS_OK);
    assert_int_equal(enter(1, 'a', 1), STATUS_QUEUE_FULL);
    assert_int_equal(enter(1, 'b', BYTES_MOST - TENANT_BYTES_MOST + 1), STATUS_BUSY);
    assert_int_equal(enter(1, 'b', BYTES_MOST - TENANT_BYTES_MOST), STATUS_OK);
    assert_int_equal(enter(2, 'c', 1), STATUS_BUSY);
    assert_int_equal(enter(2, 'c', 0), STATUS_OK);
    edge_wait_leave(wait, &ones[0].entry);
    edge_wait_leave(wait, &ones[0].entry); /* twice is once */
    assert_int_equal(enter(3, 'c', TENANT_BYTES_MOST), STATUS_OK);
}

/* The window doubles with each turn, up to its most, and is small behind an opening. */
static void test_window(void **state)
{
    (void)state;
    for (int opening = 0; opening < 2; opening++) {
        for (int i = 0; i < TENANT_MOST; i++)
            assert_int_equal(enter(i, 'a', 0), STATUS_OK);
        went = 0;
        edge_wait_open(wait);
        run_until(TENANT_MOST);
        /* four in the first turn; a timer is never early */
        assert_true(went_us[EDGE_WAIT_WINDOW_LEAST] - went_us[EDGE_WAIT_WINDOW_LEAST - 1] >=
                    (EDGE_WAIT_TURN_MS - 1) * 1000);
        edge_wait_shut(wait);
        order[0] = '\0';
    }
}

/* Busy once is one request's matter; in a row it is the engine's, which is then left alone. */
static void test_busy(void **state)
{
    (void)state;
    edge_wait_open(wait);
    for (int i = 0; i < EDGE_WAIT_BUSY_ROW - 1; i++)
        edge_wait_busy(wait, SERVICE_CLASS_REALTIME, 200);
    assert_false(edge_wait_is_needed(wait, WHO('d', REALTIME)));
    edge_wait_taken(wait, SERVICE_CLASS_REALTIME); /* it takes others: the row begins anew */
    for (int i = 0; i < EDGE_WAIT_BUSY_ROW - 1; i++)
        edge_wait_busy(wait, SERVICE_CLASS_REALTIME, 200);
    assert_false(edge_wait_is_needed(wait, WHO('d', REALTIME)));
    edge_wait_busy(wait, SERVICE_CLASS_REALTIME, 200);
    assert_int_equal(enter(1, 'a', 0), STATUS_OK);
    assert_true(edge_wait_is_needed(wait, WHO('a', REALTIME)));
    /* Whoever has nobody waiting may ask: the engine may be full for one tenant alone. */
    assert_false(edge_wait_is_needed(wait, WHO('d', REALTIME)));
    assert_false(edge_wait_is_needed(wait, WHO('a', BATCH)));
    edge_wait_open(wait); /* the engine is up: that is not what it lacks */
    run_for_ms(5);
    assert_string_equal(order, "");
    run_until(1);
    assert_string_equal(order, "a1 ");
}

/* The one that goes makes the next of the round leave. */
static void test_leaving_in_a_turn(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(enter(i, (char)('a' + i), 0), STATUS_OK);
    leaves = &ones[1];
    edge_wait_open(wait);
    run_until(2);
    assert_string_equal(order, "a0 c2 ");
    assert_int_equal(enter(3, 'b', 0), STATUS_OK);
    run_until(3);
    assert_string_equal(order, "a0 c2 b3 ");
}

static void test_classes_take_turns(void **state)
{
    (void)state;
    assert_int_equal(enter_as(0, 'a', SERVICE_CLASS_BATCH, 1), STATUS_OK);
    assert_int_equal(enter_as(1, 'a', SERVICE_CLASS_STANDARD, 1), STATUS_OK);
    assert_int_equal(enter_as(2, 'b', SERVICE_CLASS_STANDARD, 1), STATUS_OK);
    assert_int_equal(enter_as(3, 'a', SERVICE_CLASS_STANDARD, 1), STATUS_OK);
    assert_int_equal(enter_as(4, 'b', SERVICE_CLASS_REALTIME, 1), STATUS_OK);
    assert_int_equal(enter_as(5, 'b', SERVICE_CLASS_REALTIME, 1), STATUS_OK);
    edge_wait_open(wait);
    run_until(6);
    assert_string_equal(order, "b4 b5 a1 b2 a3 a0 ");
}

/* Behind so many turns of others a class has its own, and again behind as many. */
static void test_floors(void **state)
{
    (void)state;
    edge_wait_destroy(wait);
    struct edge_wait_options options = {.loop = loop,
                                        .requests_max = ENTRIES,
                                        .bytes_max = BYTES_MOST,
                                        .tenant_requests_max = ENTRIES,
                                        .tenant_bytes_max = TENANT_BYTES_MOST};
    assert_int_equal(edge_wait_create(&wait, &options), STATUS_OK);
    enum { URGENT = 2 * EDGE_WAIT_FLOOR + 4 };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(enter_as(i, 's', SERVICE_CLASS_STANDARD, 0), STATUS_OK);
        assert_int_equal(enter_as(2 + i, 'l', SERVICE_CLASS_BATCH, 0), STATUS_OK);
    }
    for (int i = 0; i < URGENT; i++)
        assert_int_equal(enter_as(4 + i, 'u', SERVICE_CLASS_REALTIME, 0), STATUS_OK);
    edge_wait_open(wait);
    run_until(4 + URGENT);
    size_t at = 0;
    for (const char *name = order; *name != '\0'; name = strchr(name, ' ') + 1, at++) {
        size_t part = at % (EDGE_WAIT_FLOOR + 1);
        assert_int_equal(*name, part == EDGE_WAIT_FLOOR ? 's' : at != 0 && part == 0 ? 'l' : 'u');
    }
    assert_int_equal(at, 4 + URGENT);
}

/* What is kept for more urgent ones is not to be had for less urgent ones, whoever waits. */
static void test_places_are_kept_for_urgent_ones(void **state)
{
    (void)state;
    int at = 0;
    for (int i = 0; i < TENANT_MOST; i++)
        assert_int_equal(enter_as(at++, 'a', SERVICE_CLASS_BATCH, 0), STATUS_OK);
    assert_int_equal(enter_as(at, 'a', SERVICE_CLASS_BATCH, 0), STATUS_QUEUE_FULL);
    assert_int_equal(enter_as(at++, 'a', SERVICE_CLASS_STANDARD, 0), STATUS_OK); /* another bound */
    while (at < MOST - 2 * (MOST / 8))
        assert_int_equal(enter_as(at++, 'c', SERVICE_CLASS_BATCH, 0), STATUS_OK);
    assert_int_equal(enter_as(at, 'd', SERVICE_CLASS_BATCH, 0), STATUS_BUSY);
    while (at < MOST - MOST / 8)
        assert_int_equal(enter_as(at++, 'c', SERVICE_CLASS_STANDARD, 0), STATUS_OK);
    assert_int_equal(enter_as(at, 'd', SERVICE_CLASS_STANDARD, 0), STATUS_BUSY);
    while (at < MOST)
        assert_int_equal(enter_as(at++, 'c', SERVICE_CLASS_REALTIME, 0), STATUS_OK);
    assert_int_equal(enter_as(at, 'd', SERVICE_CLASS_REALTIME, 0), STATUS_BUSY);
}

/* An engine that is full for one class is asked on by the others. */
static void test_busy_is_of_a_class(void **state)
{
    (void)state;
    edge_wait_open(wait);
    for (int i = 0; i < EDGE_WAIT_BUSY_ROW; i++)
        edge_wait_busy(wait, SERVICE_CLASS_BATCH, 60000);
    assert_int_equal(enter_as(0, 'a', SERVICE_CLASS_BATCH, 0), STATUS_OK);
    assert_int_equal(enter_as(1, 'a', SERVICE_CLASS_STANDARD, 0), STATUS_OK);
    assert_int_equal(enter_as(2, 'a', SERVICE_CLASS_REALTIME, 0), STATUS_OK);
    run_until(2);
    assert_string_equal(order, "a2 a1 ");
    assert_false(edge_wait_is_needed(wait, WHO('a', STANDARD)));
    assert_true(edge_wait_is_needed(wait, WHO('a', BATCH)));
}

/* No word before enough is known; then what goes before counts, and a refusal says it. */
static void test_estimate(void **state)
{
    (void)state;
    for (int i = 0; i < TENANT_MOST; i++)
        assert_int_equal(enter_as(i, 'a', SERVICE_CLASS_STANDARD, 0), STATUS_OK);
    assert_int_equal(edge_wait_estimate_ms(wait, WHO('a', STANDARD)), 0);
    for (int i = 0; i < 9; i++) {
        edge_wait_taken(wait, SERVICE_CLASS_STANDARD);
        run_for_ms(3); /* a timer is never early; how late it is does not matter */
    }
    uint32_t behind = edge_wait_estimate_ms(wait, WHO('a', STANDARD));
    uint32_t beside = edge_wait_estimate_ms(wait, WHO('b', STANDARD));
    uint32_t before = edge_wait_estimate_ms(wait, WHO('b', REALTIME));
    assert_in_range(before, 1 + 2, behind / 4);
    assert_in_range(beside, before, behind / 4);
    assert_int_equal(edge_wait_estimate_ms(wait, WHO('c', BATCH)), behind);
    assert_int_equal(enter_as(TENANT_MOST, 'a', SERVICE_CLASS_STANDARD, 0), STATUS_QUEUE_FULL);
    assert_int_equal(status_note()->retry_after_ms, behind);
    assert_non_null(strstr(status_note()->message, "class standard"));
}

static void test_no_memory(void **state)
{
    (void)state;
    struct edge_wait_options options = {.loop = loop, .requests_max = 1, .tenant_requests_max = 1};
    struct edge_wait *other = NULL;
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(edge_wait_create(&other, &options), STATUS_NO_MEMORY);
    left = 1;
    assert_int_equal(enter(0, 'a', 0), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_null(ones[0].entry.client);
    assert_int_equal(enter(0, 'a', 0), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tenants_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_tenant_is_held, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounds_of_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_busy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_leaving_in_a_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_classes_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_floors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_places_are_kept_for_urgent_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_busy_is_of_a_class, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_estimate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
