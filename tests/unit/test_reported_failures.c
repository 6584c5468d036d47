/* What users of other servers have reported of priorities and preemption, each as a test:
 * vllm-project/vllm#40004 and #24365 are test_step_classes, #18115 is test_step_pause, #54530
 * (equals that take turns) and sgl-project/sglang#13361 (more victims than needed) are in
 * test_scheduler_plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/step_world.h"

enum { ROWS = 32, LONG_PROMPT = 480 };

static struct step_world *world;

static void open_world(uint32_t pages, uint32_t host_pages, enum engine_preemption way)
{
    const struct step_world_options options = {.rows_max = ROWS,
                                               .sequences_max = 8,
                                               .pages = pages,
                                               .host_pages = host_pages,
                                               .no_prefix_cache = true,
                                               .preemption = way};
    world = step_world_open(&options);
}

static uint32_t submit(uint8_t tenant, enum service_class class, uint32_t prompt, uint32_t answer)
{
    uint32_t tokens[STEP_WORLD_CONTEXT];
    for (uint32_t i = 0; i < prompt; i++)
        tokens[i] = (i * (tenant + 3) + world->told_count) % 256;
    struct engine_request request = step_world_request(tokens, prompt, answer, 0);
    request.service_class = class;
    request.tenant = step_world_domain(tenant);
    return step_world_submit(world, &request);
}

static uint32_t said(uint32_t told)
{
    return world->told[told].answers[0].count;
}

static void run_until_said(uint32_t told, uint32_t tokens)
{
    for (uint32_t steps = 0; said(told) < tokens; steps++) {
        assert_true(steps < 1000);
        assert_true(step_world_step(world));
    }
}

/* Pages of a request's sequence; 0 when it is paused, or has not started. */
static uint32_t pages_of(uint32_t told)
{
    const struct sequence_table *table = &world->step.sequences;
    for (uint32_t i = 0; i < table->order_count; i++)
        if (!world->told[told].is_over &&
            table->slots[table->order[i]].slot == world->told[told].slot)
            return table->slots[table->order[i]].page_count;
    return 0;
}

/* vllm-project/vllm#41951: whoever was preempted lost its place to later ones. Here the preempted
 * come back before anybody new of their tenant, the older first. Another tenant's newcomer waits
 * for those that are within their tenant's part of the pages: here the first of the two. */
static void come_back_first(uint8_t newcomer_tenant)
{
    open_world(36, 36, ENGINE_PREEMPTION_SWAP);
    uint32_t first = submit(1, SERVICE_CLASS_BATCH, 100, 100);
    uint32_t second = submit(1, SERVICE_CLASS_BATCH, 100, 100);
    run_until_said(second, 40);
    uint32_t urgent = submit(2, SERVICE_CLASS_REALTIME, LONG_PROMPT, 20);
    run_until_said(urgent, 1);
    assert_int_equal(pages_of(first) + pages_of(second), 0);
    uint32_t newcomer = submit(newcomer_tenant, SERVICE_CLASS_BATCH, 60, 4);
    while (!world->told[newcomer].is_started) {
        assert_true(step_world_step(world));
        assert_false(pages_of(second) > 0 && pages_of(first) == 0);
        clock_manual_advance(&world->clock, 100000); /* what urgent work had is kept for a second */
    }
    assert_true(world->told[urgent].is_over);
    assert_true(pages_of(first) > 0);
    assert_true(pages_of(second) > 0 || newcomer_tenant != 1);
    step_world_run(world);
    assert_int_equal(said(first), 100);
    assert_int_equal(said(second), 100);
    assert_int_equal(said(newcomer), 4);
    step_world_close(world);
}

static void test_preempted_ones_keep_their_place(void **state)
{
    (void)state;
    come_back_first(1);
    come_back_first(3);
}

/* vllm-project/vllm#54644, #53723: 10 to 79 % of the work done again. Only the one that has
 * computed least gives way, and nothing is done again while host memory has room. */
static void test_the_tax_is_the_least(void **state)
{
    (void)state;
    for (int swaps = 0; swaps < 2; swaps++) {
        open_world(46, swaps ? 46 : 0, ENGINE_PREEMPTION_SWAP);
        static const uint32_t prompts[] = {200, 60, 300};
        static const uint32_t answers[] = {60, 60, 20};
        uint32_t batch[3];
        for (uint32_t i = 0; i < 3; i++)
            batch[i] = submit(1, SERVICE_CLASS_BATCH, prompts[i], answers[i]);
        run_until_said(batch[2], 8);
        const uint32_t computed = prompts[1] + said(batch[1]) - 1;
        submit(2, SERVICE_CLASS_REALTIME, (world->step.pool.free_count + 1) * STEP_WORLD_PAGE, 4);
        step_world_run(world);
        assert_int_equal(world->told[batch[0]].report.preemptions, 0);
        assert_int_equal(world->told[batch[2]].report.preemptions, 0);
        assert_int_equal(world->told[batch[1]].report.preemptions, 1);
        assert_int_equal(world->told[batch[1]].report.recomputed_tokens, swaps ? 0 : computed);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(world->told[batch[i]].report.completion_tokens, answers[i]);
        step_world_close(world);
    }
}

/* sgl-project/sglang#10063: short prompts wait behind long ones. Another tenant's does not. */
static void test_a_short_prompt_passes_a_long_one(void **state)
{
    (void)state;
    open_world(64, 0, ENGINE_PREEMPTION_RECOMPUTE);
    uint32_t large = submit(1, SERVICE_CLASS_STANDARD, LONG_PROMPT, 4);
    assert_true(step_world_step(world));
    uint32_t small = submit(2, SERVICE_CLASS_STANDARD, 8, 4);
    assert_true(step_world_step(world));
    assert_int_equal(said(small), 1);
    run_until_said(small, 4);
    assert_int_equal(said(large), 0);
    step_world_run(world);
    assert_int_equal(said(large), 4);
    step_world_close(world);
}

/* ggml-org/llama.cpp#29175: one large prompt held its neighbours up for half a minute. Each has a
 * token in every step; many streams of one wait for two quanta of a newcomer's prompt at most. */
static void test_a_long_prompt_stops_nobody(void **state)
{
    (void)state;
    enum { STREAMS = 4, QUANTUM = 4 * ROWS };
    open_world(128, 0, ENGINE_PREEMPTION_RECOMPUTE);
    world->step.fair.options.quantum = QUANTUM;
    uint32_t streams[STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++)
        streams[i] = submit(1, SERVICE_CLASS_STANDARD, 8, 120);
    uint32_t alone = submit(2, SERVICE_CLASS_STANDARD, 8, 120);
    run_until_said(streams[STREAMS - 1], 4);
    uint32_t large = submit(3, SERVICE_CLASS_STANDARD, LONG_PROMPT, 4);
    /* A quantum that it is owed, another that a first prompt has before others, a step's rows. */
    const uint32_t still_most = (2 * QUANTUM + ROWS) / (ROWS - STREAMS - 1);
    uint32_t still[STREAMS] = {0};
    for (uint32_t steps = 0; said(large) == 0; steps++) {
        assert_true(steps < 40);
        uint32_t before = said(alone);
        uint32_t before_each[STREAMS];
        for (uint32_t i = 0; i < STREAMS; i++)
            before_each[i] = said(streams[i]);
        assert_true(step_world_step(world));
        assert_int_equal(said(alone), before + 1);
        for (uint32_t i = 0; i < STREAMS; i++) {
            still[i] = said(streams[i]) == before_each[i] ? still[i] + 1 : 0;
            assert_true(still[i] <= still_most);
        }
    }
    step_world_run(world);
    assert_int_equal(said(large), 4);
    step_world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preempted_ones_keep_their_place),
        cmocka_unit_test(test_the_tax_is_the_least),
        cmocka_unit_test(test_a_short_prompt_passes_a_long_one),
        cmocka_unit_test(test_a_long_prompt_stops_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
