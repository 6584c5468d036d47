/* A device that fails: whoever is there is told, whoever comes later is refused, nothing is
 * computed any more and all is given back. The processor never fails: its table of operations is
 * swapped for one that does. */
#include "engine/step/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/ops/ops.h"
#include "tests/kit/step_world.h"

static uint32_t tokens[STEP_WORLD_CONTEXT];
static int steps_left;

static enum status fail_step_run(struct kernels *kernels, const struct kernels_step *step,
                                 void (*forward)(void *context), void *context)
{
    if (steps_left-- > 0)
        return cpu_ops.step_run(kernels, step, forward, context);
    FAIL(STATUS_UNAVAILABLE, "device 7 is on fire");
}

static struct step_world *open_world(const struct step_world_options *options,
                                     struct kernels_ops *ops)
{
    struct step_world *world = step_world_open(options);
    *ops = cpu_ops;
    ops->step_run = fail_step_run;
    world->kernels->ops = ops;
    for (uint32_t i = 0; i < STEP_WORLD_CONTEXT; i++)
        tokens[i] = i * 7 % 256;
    return world;
}

/* One in its answer, one in its prompt, one that waits; choices of one begun and not. */
static void submit_all(struct step_world *world)
{
    struct engine_request asked = step_world_request(tokens, 20, 100, 1);
    asked.choices = 2;
    step_world_submit(world, &asked);
    asked = step_world_request(tokens, 200, 5, 2);
    step_world_submit(world, &asked);
    asked = step_world_request(tokens + 1, 30, 5, 0);
    step_world_submit(world, &asked);
    asked = step_world_request(tokens + 2, 60, 0, 3);
    asked.is_published = true;
    step_world_submit(world, &asked);
}

static void check_failed(struct step_world *world)
{
    for (uint32_t i = 0; i < world->told_count; i++) {
        const struct step_world_told *told = &world->told[i];
        assert_true(told->is_over);
        if (!told->is_started)
            assert_int_equal(told->refusal.status, STATUS_UNAVAILABLE);
    }
    if (world->told[0].is_started) /* the others may have come to their own ends */
        assert_int_equal(world->told[0].report.finish, ENGINE_FINISH_ERROR);
    assert_int_equal(world->step.sequences.order_count, 0);
    assert_int_equal(world->step.queue.all.count, 0);
    assert_true(atomic_load(&world->step.is_failed));
}

static void check_mode(const struct step_world_options *options)
{
    for (int steps = 0; steps < 12; steps++) {
        struct kernels_ops ops;
        struct step_world *world = open_world(options, &ops);
        steps_left = steps;
        submit_all(world);
        for (int i = 0; i <= steps; i++)
            step_world_step(world);
        check_failed(world);
        const uint64_t computed = atomic_load(&world->step.figures.rows);
        submit_all(world);
        assert_false(step_world_step(world));
        check_failed(world);
        for (uint32_t i = 4; i < 8; i++)
            assert_false(world->told[i].is_started);
        assert_int_equal(atomic_load(&world->step.figures.rows), computed);
        step_world_close(world);
    }
}

static void test_plain(void **state)
{
    (void)state;
    check_mode(&(struct step_world_options){
        .rows_max = 32, .sequences_max = 3, .pages = 96, .pin_percent = 50});
}

static void test_paused(void **state)
{
    (void)state;
    check_mode(&(struct step_world_options){
        .rows_max = 32, .sequences_max = 4, .pages = 32, .host_pages = 32});
}

/* The pass that guesses is the one that fails, too. */
static void test_guesses(void **state)
{
    (void)state;
    check_mode(&(struct step_world_options){
        .rows_max = 32, .sequences_max = 3, .pages = 96, .speculation = ENGINE_SPECULATION_EXIT});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_paused),
        cmocka_unit_test(test_guesses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
