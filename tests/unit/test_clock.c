#include "config/base/clock.h"

#include "tests/unit/base_kit.h"

#include <time.h>

static void test_system(void **state)
{
    (void)state;
    const struct clock *clock = clock_system();
    int64_t before = clock_mono_us(clock);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    int64_t after = clock_mono_us(clock);
    assert_true(after - before >= 2000);
    int64_t ns = clock_mono_ns(clock);
    assert_true(ns / 1000 >= after);
    assert_true(ns / 1000 <= clock_mono_us(clock));
    int64_t apart_s = clock_wall_us(clock) / 1000000 - (int64_t)time(NULL);
    assert_true(apart_s >= -2);
    assert_true(apart_s <= 2);
}

static void test_manual(void **state)
{
    (void)state;
    struct clock clock;
    clock_manual_init(&clock, 1000);
    assert_int_equal(clock_mono_us(&clock), 1000);
    assert_int_equal(clock_wall_us(&clock), 1000);
    clock_manual_advance(&clock, 500);
    assert_int_equal(clock_mono_us(&clock), 1500);
    assert_int_equal(clock_mono_ns(&clock), 1500000);
    clock_manual_advance(&clock, -1500); /* a wall clock may step back */
    assert_int_equal(clock_wall_us(&clock), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
