/* edge_wait: order, fairness, bounds at n and n + 1, the window, leaving at any moment. */
#include "gateway/edge/edge_wait.h"

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
    assert_null(one->entry.tenant);
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
    assert_null(((struct one *)context)->entry.tenant);
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

static enum status enter(int index, char tenant, size_t bytes)
{
    struct one *one = &ones[index];
    uint8_t hash[16] = {(uint8_t)tenant};
    snprintf(one->name, sizeof one->name, "%c%d ", tenant, index);
    one->entry.go = on_go;
    one->entry.refused = on_refused;
    one->entry.context = one;
    return edge_wait_enter(wait, &one->entry, hash, bytes);
}

static void test_tenants_take_turns(void **state)
{
    (void)state;
    assert_true(edge_wait_is_needed(wait)); /* shut at the start */
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
    assert_true(edge_wait_is_needed(wait));
    run_until(6);
    assert_string_equal(order, "a5 b3 c4 a0 a1 a2 ");
    assert_false(edge_wait_is_needed(wait));
}

static void test_bounds(void **state)
{
    (void)state;
    int at = 0;
    for (int i = 0; i < TENANT_MOST; i++)
        assert_int_equal(enter(at++, 'a', 0), STATUS_OK);
    assert_int_equal(enter(at, 'a', 0), STATUS_BUSY);
    assert_null(ones[at].entry.tenant);
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
    assert_int_equal(enter(0, 'a', TENANT_BYTES_MOST + 1), STATUS_BUSY);
    assert_int_equal(enter(0, 'a', TENANT_BYTES_MOST), STATUS_OK);
    assert_int_equal(enter(1, 'a', 1), STATUS_BUSY);
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
        edge_wait_busy(wait, 200);
    assert_false(edge_wait_is_needed(wait));
    edge_wait_taken(wait); /* it takes others: the row begins anew */
    for (int i = 0; i < EDGE_WAIT_BUSY_ROW - 1; i++)
        edge_wait_busy(wait, 200);
    assert_false(edge_wait_is_needed(wait));
    edge_wait_busy(wait, 200);
    assert_true(edge_wait_is_needed(wait));
    assert_int_equal(enter(1, 'a', 0), STATUS_OK);
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
    assert_null(ones[0].entry.tenant);
    assert_int_equal(enter(0, 'a', 0), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tenants_take_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounds_of_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_window, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_busy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_leaving_in_a_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
