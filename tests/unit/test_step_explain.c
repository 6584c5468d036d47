#include "engine/step/step_explain.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/step_world.h"

static uint32_t submit(struct step_world *world, enum service_class class, uint8_t tenant,
                       int64_t deadline_us)
{
    static const uint32_t tokens[20] = {1, 2, 3};
    struct engine_request request = step_world_request(tokens, 20, 2, 0);
    request.service_class = class;
    request.tenant = step_world_domain(tenant);
    request.deadline_us = deadline_us;
    return step_world_submit(world, &request);
}

static void test_coarse(void **state)
{
    (void)state;
    static const uint32_t in_out[][2] = {{0, 0}, {1, 1}, {2, 2}, {3, 2}, {4, 4}, {1000, 512}};
    for (uint32_t i = 0; i < sizeof(in_out) / sizeof(in_out[0]); i++)
        assert_int_equal(step_explain_coarse(in_out[i][0]), in_out[i][1]);
    assert_int_equal(step_explain_coarse(UINT64_MAX), UINT32_C(1) << 31);
}

/* One place, ten milliseconds a step: whoever is the tenth in line cannot start within 20 ms, and
 * is told so at once; who is next in line, by its tenant, is not. */
static void test_deadlines(void **state)
{
    (void)state;
    struct step_world_options options = {.rows_max = 32, .sequences_max = 1, .pages = 32};
    struct step_world *world = step_world_open(&options);
    struct step *step = &world->step;
    for (uint32_t i = 0; i < 20; i++)
        submit(world, SERVICE_CLASS_STANDARD, 1, 0);
    /* Nothing is known yet: nobody is refused. */
    uint32_t early = submit(world, SERVICE_CLASS_STANDARD, 1, clock_mono_us(&world->clock) + 1);
    step_world_step(world);
    assert_false(world->told[early].is_over);
    while (step->gaps[SERVICE_CLASS_STANDARD].count < 12) {
        clock_manual_advance(&world->clock, 10000);
        assert_true(step_world_step(world));
    }
    assert_int_equal(world->told[early].refusal.status, STATUS_DEADLINE);
    step->cost.count = STEP_EXPLAIN_STEPS; /* of which the standing clock teaches nothing */
    int64_t now_us = clock_mono_us(&world->clock);
    uint32_t waiting = step->queue.by_class[SERVICE_CLASS_STANDARD];
    assert_true(waiting > 3);
    uint32_t late = submit(world, SERVICE_CLASS_STANDARD, 1, now_us + 20000);
    uint32_t other = submit(world, SERVICE_CLASS_STANDARD, 2, now_us + 20000);
    uint32_t patient = submit(world, SERVICE_CLASS_STANDARD, 1, now_us + 100000000);
    step_world_step(world);
    assert_true(world->told[late].is_over);
    assert_int_equal(world->told[late].refusal.status, STATUS_DEADLINE);
    assert_non_null(strstr(world->told[late].refusal.message, "in about "));
    assert_false(world->told[other].is_over);
    assert_false(world->told[patient].is_over);
    assert_true(atomic_load(&step->figures.gap_us[SERVICE_CLASS_STANDARD]) > 0);
    assert_int_equal(atomic_load(&step->figures.gap_us[SERVICE_CLASS_BATCH]), 0);
    step_world_run(world);
    assert_int_equal(world->told[other].report.completion_tokens, 2);
    assert_int_equal(world->told[patient].report.completion_tokens, 2);
    step_world_close(world);
}

/* Past when it comes: answered by the first step, before anything is known; nothing computed. */
static void test_a_deadline_that_is_past(void **state)
{
    (void)state;
    struct step_world_options options = {.rows_max = 32, .sequences_max = 1, .pages = 32};
    struct step_world *world = step_world_open(&options);
    clock_manual_advance(&world->clock, 10000);
    const int64_t now_us = clock_mono_us(&world->clock);
    static const int64_t before_us[] = {0, 1, 9000};
    for (size_t i = 0; i < sizeof before_us / sizeof before_us[0]; i++) {
        uint32_t late = submit(world, SERVICE_CLASS_REALTIME, 1, now_us - before_us[i]);
        step_world_step(world);
        assert_true(world->told[late].is_over);
        assert_false(world->told[late].is_started);
        assert_int_equal(world->told[late].refusal.status, STATUS_DEADLINE);
    }
    assert_int_equal(atomic_load(&world->step.figures.rows), 0);
    assert_int_equal(world->step.fair.requests[SERVICE_CLASS_REALTIME], 0);
    step_world_close(world);
}

/* Decodes on a machine that gets busy made a prompt's prediction hours long, and it was refused. */
static void test_a_guess_refuses_nobody(void **state)
{
    (void)state;
    struct step_world_options options = {.rows_max = 4, .sequences_max = 1, .pages = 32};
    struct step_world *world = step_world_open(&options);
    struct step *step = &world->step;
    for (uint32_t i = 0; i < STEP_EXPLAIN_STEPS; i++)
        step_cost_add(&step->cost, 1, 1 + i % 8, 20000 + 200000 * (i % 8));
    int64_t now_us = clock_mono_us(&world->clock);
    /* Five steps of four rows: 100 ms at the least, and 7 s along the fitted line. */
    uint32_t feasible = submit(world, SERVICE_CLASS_STANDARD, 1, now_us + 3000000);
    uint32_t hopeless = submit(world, SERVICE_CLASS_STANDARD, 2, now_us + 90000);
    step_world_step(world);
    assert_false(world->told[feasible].is_over);
    assert_true(world->told[hopeless].is_over);
    assert_int_equal(world->told[hopeless].refusal.status, STATUS_DEADLINE);
    step_world_run(world);
    assert_int_equal(world->told[feasible].report.completion_tokens, 2);
    step_world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coarse),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_a_deadline_that_is_past),
        cmocka_unit_test(test_a_guess_refuses_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
