#include "engine/step/step_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "config/base/clock.h"
#include "engine/sampling/sampler.h"
#include "engine/step/step_prefix.h"
#include "tests/kit/step_world.h"

enum { PROMPT = 100 };

static struct step_world *world;

static int setup(void **state)
{
    (void)state;
    const struct step_world_options options = {.rows_max = 32, .sequences_max = 1, .pages = 32};
    world = step_world_open(&options);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    step_world_close(world);
    return 0;
}

static uint32_t submit(uint8_t tenant, enum service_class class, uint32_t which)
{
    uint32_t tokens[PROMPT];
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = (i * 7 + which) % 256;
    struct engine_request request = step_world_request(tokens, PROMPT, 20, tenant);
    request.service_class = class;
    request.tenant = step_world_domain(tenant);
    return step_world_submit(world, &request);
}

static struct ticket *ticket_of(uint32_t told)
{
    return &world->tickets.slots[world->told[told].slot];
}

/* As after a change of the cache, when nothing that was found is good any more. */
static void look(void)
{
    struct scheduler_input input;
    for (uint32_t i = 0; i < world->told_count; i++)
        ticket_of(i)->found.is_known = false;
    step_view(&world->step, &input);
}

static bool is_shown(uint32_t told)
{
    for (uint32_t i = 0; i < world->step.candidate_count; i++)
        if (world->step.candidates[i] == world->told[told].slot)
            return true;
    return false;
}

/* However long prompts are, the poorest client's and those of each class are looked up; others are
 * shown one by one, as what was found of those before them is still good. */
static void test_long_prompts_hide_nobody(void **state)
{
    (void)state;
    submit(1, SERVICE_CLASS_REALTIME, 0);
    assert_true(step_world_step(world)); /* it has the only place */
    uint32_t rich[3];
    for (uint32_t i = 0; i < 3; i++)
        rich[i] = submit(2, SERVICE_CLASS_STANDARD, 1 + i);
    uint32_t poor = submit(3, SERVICE_CLASS_STANDARD, 4);
    uint32_t lower = submit(4, SERVICE_CLASS_BATCH, 5);
    assert_true(step_world_step(world));
    scheduler_fair_charge(&world->step.fair, ticket_of(rich[0])->client, 10);
    look();
    for (uint32_t i = 0; i < 3; i++)
        assert_true(is_shown(rich[i]));
    assert_true(is_shown(poor) && is_shown(lower));

    world->step.find_tokens_most = 1;
    look();
    assert_true(is_shown(poor) && is_shown(lower));
    for (uint32_t i = 0; i < 3; i++)
        assert_false(is_shown(rich[i]));
    for (uint32_t i = 0; i < 3; i++) {
        struct scheduler_input input;
        step_view(&world->step, &input);
        assert_true(is_shown(poor) && is_shown(lower));
        for (uint32_t k = 0; k < 3; k++)
            assert_int_equal(is_shown(rich[k]), k <= i);
    }
    world->step.find_tokens_most = STEP_PREFIX_FIND_TOKENS;
    step_world_run(world);
}

static uint32_t submit_drawn(const struct engine_sampling *sampling, bool has_logprobs)
{
    uint32_t tokens[PROMPT]; /* no two prompts begin alike: one would follow the other */
    for (uint32_t i = 0; i < PROMPT; i++)
        tokens[i] = (i * 5 + world->told_count * 11) % 256;
    struct engine_request request = step_world_request(tokens, PROMPT, 20, 1);
    request.sampling = *sampling;
    request.want_logprobs = has_logprobs;
    request.top_logprobs = has_logprobs ? 3 : 0;
    return step_world_submit(world, &request);
}

/* What the scheduler sees of each sequence is what its own way of drawing a token takes, while it
 * waits and while it runs. */
static void test_the_work_of_drawing_is_shown(void **state)
{
    (void)state;
    static const struct engine_sampling ways[] = {
        {.top_p = 1},
        {.temperature = 1, .top_p = 0.9F},
        {.temperature = 1, .top_p = 0.999999F, .top_k = 200},
        {.top_p = 1, .frequency_penalty = 1},
    };
    enum { WAYS = sizeof(ways) / sizeof(ways[0]) };
    double last = -1;
    for (uint32_t i = 0; i < WAYS; i++) {
        const bool has_logprobs = i == 0;
        double work = sampler_work(&ways[i], 1, 0, has_logprobs ? 3 : 0);
        assert_true(work != last);
        last = work;
        (void)submit_drawn(&ways[i], has_logprobs);
        assert_true(step_world_step(world));
        uint32_t other = submit_drawn(&ways[i], has_logprobs); /* waits: there is one place */
        assert_true(step_world_step(world));
        look();
        assert_true(is_shown(other));
        for (uint32_t k = 0; k < world->step.candidate_count; k++)
            assert_true(world->step.view_waiting[k].draw_work == work);
        const struct sequence_table *table = &world->step.sequences;
        assert_int_equal(table->order_count, 1);
        uint32_t generated = sequence_generated(&table->slots[table->order[0]]);
        work = sampler_work(&ways[i], 1, generated, has_logprobs ? 3 : 0);
        assert_true(work > 0 && world->step.view_running[0].draw_work == work);
        step_world_run(world);
    }
}

/* A step tells the model of costs what its drawing took, measured with the step's clock. */
static void test_the_time_of_drawing_is_measured(void **state)
{
    (void)state;
    const struct engine_sampling way = {.temperature = 1, .top_p = 0.9F, .top_k = 200};
    (void)submit_drawn(&way, false);
    while (world->step.cost.fit.draw_us == 0 && step_world_step(world))
        assert_true(world->step.cost.fit.draw_us ==
                    0); /* nothing takes time by a clock that stands */
    (void)submit_drawn(&way, false);
    world->step.options.clock = clock_system();
    step_world_run(world);
    assert_true(world->step.cost.fit.draw_us > 0);
    assert_true(world->step.cost.bound.draw_us == world->step.cost.fit.draw_us);
    world->step.options.clock = &world->clock;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_work_of_drawing_is_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_time_of_drawing_is_measured, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_prompts_hide_nobody, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
