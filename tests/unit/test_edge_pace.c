/* edge_pace: the bucket of an owner, whose generations count, what waits and what is refused; and
 * the same through a real edge at one small request a second. */
#include "gateway/edge/state/edge_pace.h"

#include "tests/unit/edge_kit.h"

enum { RATE = 200, BURST = RATE / 4 + 1 };
static const int64_t MS = 1000;
static const int64_t BEGIN_US = 5000000;

static struct edge_pace *pace;

static int make(void **state)
{
    (void)state;
    return edge_pace_create(&pace, RATE) == STATUS_OK ? 0 : -1;
}

static int destroy(void **state)
{
    (void)state;
    edge_pace_destroy(pace);
    return 0;
}

static uint32_t small_ms(uint32_t owner, int64_t now_us)
{
    return edge_pace_wait_ms(pace, owner, EDGE_PACE_SMALL, EDGE_PACE_MOST_MS, now_us, NULL);
}

static void test_nobody_waits_alone(void **state)
{
    (void)state;
    edge_pace_began(pace, 1);
    for (int i = 0; i < 10 * RATE; i++)
        assert_int_equal(small_ms(1, BEGIN_US), 0);
    edge_pace_ended(pace, 1, false, 0, BEGIN_US);
    for (int i = 0; i < 10 * RATE; i++)
        assert_int_equal(small_ms(1, BEGIN_US), 0);
}

/* Turns within ten seconds beside another's generation, asked for every millisecond. */
static void test_the_rate_holds(void **state)
{
    (void)state;
    enum { SECONDS = 10 };
    int turns = 0;
    edge_pace_began(pace, 2);
    for (int64_t at = 0; at < SECONDS * 1000; at++) {
        bool is_over;
        uint32_t wait_ms = edge_pace_wait_ms(pace, 1, EDGE_PACE_SMALL, EDGE_PACE_MOST_MS,
                                             BEGIN_US + at * MS, &is_over);
        turns += !is_over && at + wait_ms <= SECONDS * 1000;
    }
    assert_in_range(turns, SECONDS * RATE, SECONDS * RATE + BURST);
    int64_t last = 0;
    for (int i = 0; i < 3 * RATE; i++) {
        int64_t wait = small_ms(3, BEGIN_US);
        assert_true(wait >= last && wait <= EDGE_PACE_MOST_MS);
        last = wait;
    }
    assert_int_equal(last, EDGE_PACE_MOST_MS);
    assert_int_equal(small_ms(4, BEGIN_US), 0); /* of another owner */
    edge_pace_ended(pace, 2, false, 0, BEGIN_US);
}

static void test_too_many_that_wait(void **state)
{
    (void)state;
    bool is_over = false;
    int in_time = 0;
    edge_pace_began(pace, 2);
    while (!is_over) {
        assert_in_range(
            edge_pace_wait_ms(pace, 1, EDGE_PACE_SMALL, EDGE_PACE_MOST_MS, BEGIN_US, &is_over), 0,
            EDGE_PACE_MOST_MS);
        in_time += !is_over;
    }
    assert_int_equal(in_time, BURST + RATE * EDGE_PACE_MOST_MS / 1000);
    edge_pace_ended(pace, 2, false, 0, BEGIN_US);
}

/* A client that chats has gaps between its answers. */
static void test_recent_generations_count(void **state)
{
    (void)state;
    int64_t later_us = BEGIN_US + EDGE_PACE_RECENT_MS * MS;
    edge_pace_began(pace, 2);
    edge_pace_ended(pace, 2, false, 0, BEGIN_US);
    edge_pace_began(pace, 1); /* one's own does not hide it */
    edge_pace_ended(pace, 1, false, 0, BEGIN_US);
    for (int i = 0; i < BURST; i++)
        assert_int_equal(small_ms(1, later_us - 1), 0);
    assert_true(small_ms(1, later_us - 1) > 0);
    assert_int_equal(small_ms(1, later_us), 0);
}

static void test_refused_generations(void **state)
{
    (void)state;
    edge_pace_began(pace, 2);
    for (int i = 0; i < 2 * BURST; i++) {
        edge_pace_began(pace, 1);
        edge_pace_ended(pace, 1, true, 0, BEGIN_US);
    }
    assert_int_equal(small_ms(1, BEGIN_US), 0); /* a bucket of its own */
    for (int i = 0; i < 2; i++)                 /* a generation waits, and fills nothing */
        assert_int_equal(
            edge_pace_wait_ms(pace, 1, EDGE_PACE_GENERATION, EDGE_PACE_MOST_MS, BEGIN_US, NULL),
            (2 * BURST * 1000 / RATE) - 250);
    edge_pace_ended(pace, 2, false, 0, BEGIN_US);
}

/* A client that asked again and again while nobody else generated owes no more than one wait. */
static void test_old_refusals_are_forgotten(void **state)
{
    (void)state;
    int64_t later_us = BEGIN_US + EDGE_PACE_MOST_MS * MS;
    for (int i = 0; i < 1000 * RATE; i++)
        edge_pace_refused(pace, 1, 0, BEGIN_US);
    edge_pace_began(pace, 2);
    assert_int_equal(
        edge_pace_wait_ms(pace, 1, EDGE_PACE_GENERATION, EDGE_PACE_MOST_MS, BEGIN_US, NULL),
        EDGE_PACE_MOST_MS);
    assert_int_equal(
        edge_pace_wait_ms(pace, 1, EDGE_PACE_GENERATION, EDGE_PACE_MOST_MS, later_us, NULL), 0);
    edge_pace_ended(pace, 2, false, 0, later_us);
}

static uint32_t generation_ms(uint32_t owner)
{
    return edge_pace_wait_ms(pace, owner, EDGE_PACE_GENERATION, EDGE_PACE_MOST_MS, BEGIN_US, NULL);
}

/* A body of so many parts that was refused, or left, counts as so many requests more. */
static void test_refused_bodies_count(void **state)
{
    (void)state;
    enum { PARTS = 99, BYTES = PARTS * EDGE_PACE_PART_BYTES };
    const uint32_t wait_ms = (PARTS + 1) * 1000 / RATE - 250;
    edge_pace_began(pace, 2);
    edge_pace_refused(pace, 1, BYTES, BEGIN_US);
    assert_int_equal(generation_ms(1), wait_ms);
    edge_pace_began(pace, 3);
    edge_pace_ended(pace, 3, true, BYTES + EDGE_PACE_PART_BYTES - 1, BEGIN_US);
    assert_int_equal(generation_ms(3), wait_ms);
    edge_pace_began(pace, 4);
    edge_pace_ended(pace, 4, false, BYTES, BEGIN_US);
    assert_int_equal(generation_ms(4), 0);
    edge_pace_ended(pace, 2, false, 0, BEGIN_US);
}

static void test_no_rate(void **state)
{
    (void)state;
    struct edge_pace *none;
    assert_int_equal(edge_pace_create(&none, 0), STATUS_OK);
    edge_pace_began(none, 2);
    for (int i = 0; i < 10 * RATE; i++)
        assert_int_equal(
            edge_pace_wait_ms(none, 1, EDGE_PACE_SMALL, EDGE_PACE_MOST_MS, BEGIN_US, NULL), 0);
    edge_pace_destroy(none);
}

/* --- through an edge, at one a second --- */

enum { ASKED = 4 };
static char other_key[LIMIT_KEY_BYTES];

static int start(void **state)
{
    (void)state;
    char id[64], path[160];
    const char *options[] = {"--small-requests-s", "1", "--replay-wait-s", "1"};
    edge_kit_setup_with(options, 4);
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/tenants", "{\"name\":\"other\"}"), 201);
    edge_kit_member("id", id, sizeof id);
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", id);
    assert_int_equal(edge_kit_admin("POST", path, "{}"), 201);
    edge_kit_member("key", other_key, sizeof other_key);
    return 0;
}

static int paced(void)
{
    assert_int_equal(edge_kit_admin("GET", "/metrics", ""), 200);
    const char *found = strstr(answer, "\nbanyan_requests_paced_total ");
    assert_non_null(found);
    return (int)strtol(found + strlen("\nbanyan_requests_paced_total "), NULL, 10);
}

static int held_unproven(void)
{
    static const char name[] = "\nbanyan_memory_held_bytes{owner=\"unproven\"} ";
    assert_int_equal(edge_kit_admin("GET", "/metrics", ""), 200);
    const char *found = strstr(answer, name);
    assert_non_null(found);
    return (int)strtol(found + strlen(name), NULL, 10);
}

static int other(const char *path, const char *body)
{
    return edge_kit_ask(kit.port, "POST", path, edge_kit_bearer(other_key), body);
}

static void test_through_an_edge(void **state)
{
    (void)state;
    struct edge_kit_connection stream = edge_kit_connect(kit.port);
    edge_kit_write(&stream, "POST", "/v1/chat/completions", edge_kit_bearer(other_key),
                   "{\"model\":\"endless\",\"stream\":true}");
    edge_kit_read(&stream, "tok ");
    struct edge_kit_connection asked[ASKED + 1];
    for (int i = 0; i <= ASKED; i++)
        asked[i] = edge_kit_connect(kit.port);
    for (int i = 0; i <= ASKED; i++)
        edge_kit_write(&asked[i], "POST", "/v1/tokenize", edge_kit_bearer(kit.key),
                       "{\"prompt\":\"x\"}");
    while (paced() < ASKED)
        usleep(10000);
    assert_int_equal(other("/v1/tokenize", "{\"prompt\":\"x\"}"), 200);
    assert_int_equal(edge_kit_public("POST", "/v1/completions", "{\"model\":\"ok\"}"), 200);
    assert_int_equal(paced(), ASKED); /* others wait for nothing, nor do generations */
    edge_kit_close(&asked[ASKED]);    /* whoever leaves meanwhile is let go */
    int answered = 0, refused = 0;    /* of the others, in whatever order they came */
    for (int i = 0; i < ASKED; i++) {
        edge_kit_read(&asked[i], NULL);
        answered += strncmp(answer, "HTTP/1.1 200", 12) == 0;
        refused += strncmp(answer, "HTTP/1.1 429", 12) == 0 && strstr(answer, "queue_full") != NULL;
        edge_kit_close(&asked[i]);
    }
    assert_int_equal(answered + refused, ASKED);
    assert_in_range(refused, 1, 2);
    for (int i = 0; i < 2; i++) /* a refusal is one's own, and then the next one waits */
        assert_int_equal(edge_kit_public("POST", "/v1/completions", "{\"model\":\"refused\"}"),
                         400);
    assert_int_equal(paced(), ASKED + 1);
    for (int i = 0; i < 2; i++) /* strangers by their address: a wrong key, no route */
        assert_int_equal(edge_kit_ask(kit.port, "GET", i == 0 ? "/v1/me" : "/nothing", "", ""),
                         i == 0 ? 401 : 404);
    assert_int_equal(paced(), ASKED + 2);
    /* What waits without a tenant takes nothing from tokens that wait for their check. */
    struct edge_kit_connection nobody = edge_kit_connect(kit.port);
    edge_kit_write(&nobody, "GET", "/nothing", "", "");
    while (paced() < ASKED + 3)
        usleep(10000);
    assert_int_equal(held_unproven(), 0);
    edge_kit_read(&nobody, NULL);
    assert_int_equal(strncmp(answer, "HTTP/1.1 404", 12), 0);
    edge_kit_close(&nobody);
    edge_kit_close(&stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nobody_waits_alone, make, destroy),
        cmocka_unit_test_setup_teardown(test_the_rate_holds, make, destroy),
        cmocka_unit_test_setup_teardown(test_too_many_that_wait, make, destroy),
        cmocka_unit_test_setup_teardown(test_recent_generations_count, make, destroy),
        cmocka_unit_test_setup_teardown(test_refused_generations, make, destroy),
        cmocka_unit_test_setup_teardown(test_old_refusals_are_forgotten, make, destroy),
        cmocka_unit_test_setup_teardown(test_refused_bodies_count, make, destroy),
        cmocka_unit_test(test_no_rate),
    };
    const struct CMUnitTest served[] = {cmocka_unit_test(test_through_an_edge)};
    int failed = cmocka_run_group_tests_name("pace", tests, NULL, NULL);
    return failed + cmocka_run_group_tests_name("served", served, start, edge_kit_teardown);
}
