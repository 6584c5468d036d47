#include "engine/bench/bench_machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void test_others(void **state)
{
    (void)state;
    struct bench_machine begin = {.at = 1000, .all = 500, .own = 100};
    struct bench_machine end = {.at = 3000, .all = 2500, .own = 1100};
    assert_true(bench_machine_others(&begin, &end) == 0.5);
    end.own = 2200; /* ticks lag behind: never less than nobody */
    assert_true(bench_machine_others(&begin, &end) == 0);
    assert_true(bench_machine_others(&begin, &begin) == 0);
    end.all = -1;
    assert_true(bench_machine_others(&begin, &end) == -1);
}

/* Time goes on, and none of the sums goes back. */
static void test_now(void **state)
{
    (void)state;
    struct bench_machine one = bench_machine_now();
    struct bench_machine two = bench_machine_now();
    assert_true(two.at >= one.at && two.own >= one.own);
    assert_true(bench_machine_others(&one, &two) >= -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
