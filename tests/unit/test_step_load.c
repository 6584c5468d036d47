#include "engine/step/step_load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A part of a prompt, a decode, and a decode with forced tokens. */
static void test_rows_logits_and_tokens_are_summed(void **state)
{
    (void)state;
    struct sequence sequences[] = {
        {.token_count = 100, .computed = 10, .scored = UINT32_MAX},
        {.token_count = 40, .computed = 39, .scored = UINT32_MAX},
        {.token_count = 20, .computed = 19, .scored = UINT32_MAX, .forced = 3},
    };
    struct step_part parts[] = {
        {.sequence = 0, .rows = 30}, {.sequence = 1, .rows = 1}, {.sequence = 2, .rows = 1}};
    static struct step step;
    step.sequences.slots = sequences;
    step.parts = parts;
    step.cost.fit.key_us = 1;
    struct step_load load = step_load_planned(&step, 3);
    assert_int_equal(load.rows, 32);
    assert_int_equal(load.logit_rows, 2);
    assert_int_equal((int)load.tokens, 2);
    const double keys = load.keys;
    parts[2].forced = 3;
    load = step_load_planned(&step, 3);
    assert_int_equal(load.rows, 35);
    assert_int_equal(load.logit_rows, 5);
    assert_int_equal((int)load.tokens, 5);
    assert_int_equal((int)(load.keys - keys), (int)step_load_keys(&step, 20, 3));
}

static void test_rows_behind_the_plan_may_stretch_a_step_by_a_quarter(void **state)
{
    (void)state;
    static struct step step;
    const struct step_load load = {.rows = 10};
    step.cost.bound = (struct scheduler_cost){.fixed_us = 1000, .row_us = 100};
    const double least_us = 1.25 * step_cost_predict(&step.cost.bound, 10, 0);
    assert_true(step_load_limit_us(&step, &load, 0) == 0);
    assert_true(step_load_limit_us(&step, &load, 1) == least_us);
    assert_true(step_load_limit_us(&step, &load, 1e9) == 1e9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_logits_and_tokens_are_summed),
        cmocka_unit_test(test_rows_behind_the_plan_may_stretch_a_step_by_a_quarter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
