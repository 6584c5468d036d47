#include "gateway/http/failure_guard.h"

#include "config/base/limits.h"
#include "tests/unit/edge_text_kit.h"

static struct failure_guard *guard;
static bool is_first;

static bool fail_at_s(const char *peer, double seconds)
{
    return failure_guard_fail(guard, slice_of(peer), (int64_t)(seconds * 1e6), &is_first);
}

static int setup(void **state)
{
    (void)state;
    guard = failure_guard_create(LIMIT_ADMIN_FAILURES, 1);
    return guard == NULL;
}

static int teardown(void **state)
{
    (void)state;
    failure_guard_destroy(guard);
    return 0;
}

/* The limit at once, then one a second; one line for the log in a series. */
static void test_one_address(void **state)
{
    (void)state;
    for (int i = 0; i < LIMIT_ADMIN_FAILURES; i++)
        assert_false(fail_at_s("192.0.2.1:1000", 1));
    assert_true(fail_at_s("192.0.2.1:1001", 1)); /* another port is the same guest */
    assert_true(is_first);
    assert_true(fail_at_s("192.0.2.1:1002", 1));
    assert_false(is_first);
    assert_false(fail_at_s("192.0.2.2:1000", 1));
    /* Two above the limit: after two seconds the level is the limit, after three below it. */
    assert_true(fail_at_s("192.0.2.1:1", 3));
    assert_false(fail_at_s("192.0.2.1:1", 5));
    assert_true(fail_at_s("192.0.2.1:1", 5));
    assert_true(is_first); /* a new series */
    /* However long it went on, a pause of twice the limit is enough. */
    for (int i = 0; i < 1000; i++)
        fail_at_s("192.0.2.1:1", 6);
    for (int i = 0; i < LIMIT_ADMIN_FAILURES; i++)
        assert_false(fail_at_s("192.0.2.1:1", 6 + 2 * LIMIT_ADMIN_FAILURES));
}

/* Half seconds are not lost: five failures a second never pass, two in three seconds always do. */
static void test_rates(void **state)
{
    (void)state;
    int refused = 0;
    for (int i = 0; i < 500; i++)
        refused += fail_at_s("198.51.100.1:1", 100 + i * 0.2);
    assert_in_range(refused, 500 - 100 - LIMIT_ADMIN_FAILURES - 1, 500);
    for (int i = 0; i < 500; i++)
        assert_false(fail_at_s("198.51.100.2:1", 100 + i * 1.5));
}

/* An IPv6 guest has a /64, so all of it is one guest; brackets and ports come off. */
static void test_six(void **state)
{
    (void)state;
    for (int i = 0; i < LIMIT_ADMIN_FAILURES; i++) {
        char peer[64];
        snprintf(peer, sizeof peer, "[2001:db8:1:2:%x::1]:%d", i, 1000 + i);
        assert_false(fail_at_s(peer, 1));
    }
    assert_true(fail_at_s("[2001:db8:1:2::ffff]:1", 1));
    assert_false(fail_at_s("[2001:db8:1:3::ffff]:1", 1));
    assert_false(fail_at_s("[not an address]:1", 1));
    assert_false(fail_at_s("", 1));
}

/* More addresses than there are slots: a heavy one keeps its place, light ones come and go. */
static void test_many_addresses(void **state)
{
    (void)state;
    for (int i = 0; i <= LIMIT_ADMIN_FAILURES; i++)
        fail_at_s("203.0.113.1:1", 1);
    for (int i = 0; i < 20000; i++) {
        char peer[64];
        snprintf(peer, sizeof peer, "10.%d.%d.%d:1", i / 65536, i / 256 % 256, i % 256);
        assert_false(fail_at_s(peer, 1));
    }
    assert_true(fail_at_s("203.0.113.1:1", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_address, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_six, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_addresses, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
