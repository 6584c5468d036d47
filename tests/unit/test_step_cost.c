#include "engine/step/step_cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "config/base/rng.h"

static const struct scheduler_cost truth = {.fixed_us = 12000, .row_us = 300, .key_us = 0.4};

/* A step of the true cost, on a machine that is slower by up to `noise` of it. */
static void add(struct step_cost *cost, struct rng *rng, uint32_t rows, uint64_t keys, double noise)
{
    double us = step_cost_predict(&truth, rows, (double)keys);
    double slower = noise * (double)rng_below(rng, 1001) / 1000;
    step_cost_add(cost, rows, (double)keys, (int64_t)(us * (1 + slower)));
}

/* A mixture of decodes and prompts, as a server sees them. */
static void add_mixed(struct step_cost *cost, struct rng *rng, double noise)
{
    uint32_t rows = rng_below(rng, 2) == 0 ? 1 + (uint32_t)rng_below(rng, 16)
                                           : 64 + (uint32_t)rng_below(rng, 448);
    add(cost, rng, rows, (uint64_t)rows * (1 + rng_below(rng, 2000)), noise);
}

static void assert_within(double value, double least, double most)
{
    if (!(value >= least && value <= most))
        print_error("%g is not within %g and %g\n", value, least, most);
    assert_true(value >= least && value <= most);
}

static void test_learns_the_line(void **state)
{
    (void)state;
    struct step_cost cost = {0};
    struct rng rng = {.seed = 1};
    assert_false(step_cost_is_known(&cost));
    for (uint32_t i = 0; i < 1000; i++)
        add_mixed(&cost, &rng, 0);
    assert_true(step_cost_is_known(&cost));
    for (uint32_t rows = 1; rows <= 512; rows *= 2) {
        double keys = rows * 700.0;
        double ratio =
            step_cost_predict(&cost.bound, rows, keys) / step_cost_predict(&truth, rows, keys);
        assert_within(ratio, 0.97, 1.03);
    }
}

/* Nine of ten steps to come take no longer than the bound, and it is no wild guess. */
static void test_bounds_nine_of_ten(void **state)
{
    (void)state;
    struct step_cost cost = {0};
    struct rng rng = {.seed = 2};
    uint32_t within = 0;
    uint32_t judged = 0;
    for (uint32_t i = 0; i < 4000; i++) {
        struct step_cost before = cost;
        add_mixed(&cost, &rng, 0.5);
        if (i < STEP_COST_WINDOW)
            continue;
        const struct step_cost_sample *last = &cost.samples[before.next];
        double predicted = step_cost_predict(&before.bound, last->rows, last->keys);
        within += last->us <= predicted;
        assert_within(predicted / last->us, 0.5, 2.2);
        judged++;
    }
    assert_within(within / (double)judged, 0.85, 0.95);
}

/* Hours of decodes alone teach what decodes cost, and do not make a prompt cheap. */
static void test_alike_steps_do_not_erase(void **state)
{
    (void)state;
    struct step_cost cost = {0};
    struct rng rng = {.seed = 3};
    for (uint32_t i = 0; i < 500; i++)
        add_mixed(&cost, &rng, 0.1);
    for (uint32_t i = 0; i < 20000; i++)
        add(&cost, &rng, 8, 8 * 500, 0.1);
    assert_within(step_cost_predict(&cost.bound, 8, 4000) / step_cost_predict(&truth, 8, 4000), 0.9,
                  1.2);
    assert_within(step_cost_predict(&cost.bound, 512, 512 * 500) /
                      step_cost_predict(&truth, 512, 512 * 500),
                  0.4, 2.5);
}

/* Steps of no time, as a clock that stands shows them, are no steps. */
static void test_a_clock_that_stands(void **state)
{
    (void)state;
    struct step_cost cost = {0};
    for (uint32_t i = 0; i < 100; i++)
        step_cost_add(&cost, 10, 100, 0);
    assert_false(step_cost_is_known(&cost));
    for (uint32_t i = 0; i < 100; i++)
        step_cost_add(&cost, 1, 1, 1);
    assert_true(step_cost_is_known(&cost));
    assert_within(step_cost_predict(&cost.bound, 1, 1), 0.9, 1.1);
}

/* Decodes that grow slower, as on a machine that gets busy, make no prompt hopeless. */
static void test_the_least(void **state)
{
    (void)state;
    struct step_cost cost = {0};
    assert_within(step_cost_least(&cost, 1000, 100), 0, 0);
    for (uint32_t i = 0; i < STEP_COST_WINDOW; i++)
        step_cost_add(&cost, 1, 1 + i % 8, 20000 + 50000 * (i % 8));
    assert_within(step_cost_predict(&cost.fit, 1000, 1000 * 500), 1e10, 1e11); /* hours */
    assert_within(step_cost_least(&cost, 1000, 100), 10 * 20000, 10 * 150000);
    step_cost_add(&cost, 60, 1000, 9000000); /* a stall */
    step_cost_add(&cost, 120, 1000, 30000);
    assert_within(step_cost_least(&cost, 1000, 100), 10 * 25000, 10 * 25000);
    assert_within(step_cost_least(&cost, 10, 100), 2500, 2500);
    step_cost_add(&cost, 1, 1, 20000); /* says nothing of large ones */
    assert_within(step_cost_least(&cost, 240, 120), 2 * 30000, 2 * 30000);
    step_cost_add(&cost, 60, 1000, 255000);
    assert_within(step_cost_least(&cost, 240, 120), 2 * 60000, 2 * 60000);
    step_cost_doubt(&cost);
    assert_within(step_cost_least(&cost, 240, 120), 2 * 56000, 2 * 57000);
}

/* What choosing tokens takes is learnt for as much work, rises fast and falls slowly; a step that
 * chooses none teaches nothing. */
static void test_draws(void **state)
{
    (void)state;
    struct step_cost cost = {0};
    struct rng rng = {.seed = 4};
    for (uint32_t i = 0; i < 200; i++) {
        add_mixed(&cost, &rng, 0);
        step_cost_draw(&cost, i % 3 * 8, i % 3 * 8 * 50.0);
    }
    assert_within(cost.bound.draw_us, 49, 51);
    assert_within(cost.fit.draw_us, 49, 51);
    for (uint32_t i = 0; i < 8; i++)
        step_cost_draw(&cost, 10, 10 * 100.0);
    assert_within(cost.bound.draw_us, 90, 100);
    for (uint32_t i = 0; i < 8; i++)
        step_cost_draw(&cost, 10, 10 * 50.0);
    assert_within(cost.bound.draw_us, 80, 95);
    for (uint32_t i = 0; i < 200; i++)
        step_cost_draw(&cost, 10, 10 * 50.0);
    step_cost_draw(&cost, 1, 3000); /* a thread that was held up once */
    assert_within(cost.bound.draw_us, 50, 65);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_learns_the_line),
        cmocka_unit_test(test_bounds_nine_of_ten),
        cmocka_unit_test(test_alike_steps_do_not_erase),
        cmocka_unit_test(test_a_clock_that_stands),
        cmocka_unit_test(test_the_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
