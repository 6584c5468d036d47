#include "engine/step_pause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "engine/step_view.h"
#include "tests/kit/step_world.h"

static const uint32_t *prompt(uint32_t which)
{
    static uint32_t tokens[8][STEP_WORLD_CONTEXT];
    for (uint32_t i = 0; i < STEP_WORLD_CONTEXT; i++)
        tokens[which][i] = (i * (which * 2 + 3) + which) % 256;
    return tokens[which];
}

static struct engine_request ask(enum service_class class, uint32_t which, uint32_t count,
                                 uint32_t tokens_max)
{
    struct engine_request request = step_world_request(prompt(which), count, tokens_max, 1);
    request.service_class = class;
    memset(request.tenant.bytes, (int)which + 1, sizeof(request.tenant.bytes));
    return request;
}

/* A pool of one context, held by batch work: realtime work comes in at the next step, the paused
 * stream is told so, goes on to the same end, and pays nothing for what is done twice. */
static void test_pause_for_a_class(void **state)
{
    (void)state;
    struct step_world_options options = {
        .rows_max = 64, .sequences_max = 4, .pages = 32, .preemption = ENGINE_PREEMPTION_RECOMPUTE};
    struct step_world *alone = step_world_open(&options);
    struct engine_request batch = ask(SERVICE_CLASS_BATCH, 0, 380, 100);
    uint32_t undisturbed = step_world_submit(alone, &batch);
    step_world_run(alone);

    struct step_world *world = step_world_open(&options);
    struct engine_request urgent = ask(SERVICE_CLASS_REALTIME, 1, 300, 4);
    uint32_t first = step_world_submit(world, &batch);
    while (world->told[first].answers[0].count < 40)
        assert_true(step_world_step(world));
    double charged = world->step.fair.clients[0].charged;
    uint32_t second = step_world_submit(world, &urgent);
    uint32_t steps = 0;
    while (!world->told[second].is_over) {
        assert_true(step_world_step(world));
        assert_true(++steps < 20);
        if (world->told[first].answers[0].is_paused) {
            enum engine_request_state shown =
                atomic_load(&world->tickets.slots[world->told[first].slot].shown_state);
            assert_int_equal(shown, ENGINE_REQUEST_PAUSED);
        }
    }
    step_world_run(world);
    assert_true(step_world_same(&world->told[first], &alone->told[undisturbed]));
    const struct engine_report *report = &world->told[first].report;
    assert_int_equal(report->service_class, SERVICE_CLASS_BATCH);
    assert_int_equal(report->preemptions, 1);
    assert_int_equal(world->told[first].answers[0].pauses, 1);
    assert_true(report->recomputed_tokens > 0);
    assert_int_equal(world->told[second].report.preemptions, 0);
    assert_true(world->step.fair.overhead == report->recomputed_tokens);
    assert_true(world->step.fair.clients[0].charged < charged + 2 * 60 + 0.01 * 32 * 120);
    step_world_close(world);
    step_world_close(alone);
}

/* Cancelled while paused: it ends, and nothing of it is left. */
static void test_cancel_while_paused(void **state)
{
    (void)state;
    struct step_world_options options = {
        .rows_max = 64, .sequences_max = 4, .pages = 32, .preemption = ENGINE_PREEMPTION_RECOMPUTE};
    struct step_world *world = step_world_open(&options);
    struct engine_request batch = ask(SERVICE_CLASS_BATCH, 0, 380, 100);
    struct engine_request urgent = ask(SERVICE_CLASS_REALTIME, 1, 300, 50);
    uint32_t first = step_world_submit(world, &batch);
    while (world->told[first].answers[0].count < 10)
        assert_true(step_world_step(world));
    uint32_t second = step_world_submit(world, &urgent);
    while (!world->told[first].answers[0].is_paused)
        assert_true(step_world_step(world));
    clock_manual_advance(&world->clock, 7000);
    step_world_cancel(world, first);
    step_world_run(world);
    assert_true(world->told[first].is_over);
    assert_int_equal(world->told[first].report.finish, ENGINE_FINISH_CANCELLED);
    assert_int_equal(world->told[first].report.paused_us, 7000);
    assert_int_equal(world->told[second].report.completion_tokens, 50);
    step_world_close(world);
}

/* Without preemption nobody of another class loses anything. */
static void test_preemption_off(void **state)
{
    (void)state;
    struct step_world_options options = {
        .rows_max = 64, .sequences_max = 4, .pages = 32, .preemption = ENGINE_PREEMPTION_OFF};
    struct step_world *world = step_world_open(&options);
    struct engine_request batch = ask(SERVICE_CLASS_BATCH, 0, 380, 100);
    struct engine_request urgent = ask(SERVICE_CLASS_REALTIME, 1, 300, 4);
    uint32_t first = step_world_submit(world, &batch);
    while (world->told[first].answers[0].count < 40)
        assert_true(step_world_step(world));
    uint32_t second = step_world_submit(world, &urgent);
    while (!world->told[first].is_over) {
        assert_true(step_world_step(world));
        assert_false(world->told[second].is_started);
    }
    step_world_run(world);
    assert_int_equal(world->told[first].report.preemptions, 0);
    assert_true(world->told[second].is_over);
    step_world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pause_for_a_class),
        cmocka_unit_test(test_cancel_while_paused),
        cmocka_unit_test(test_preemption_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
