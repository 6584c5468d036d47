/* step_lower: who is lowered while it runs, waits or is on its way gives way from then on, says the
 * same, and leaves nothing behind. */
#include "engine/step/step_lower.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kit/step_world.h"

static const struct step_world_options one_context = {
    .rows_max = 64, .sequences_max = 4, .pages = 32, .preemption = ENGINE_PREEMPTION_RECOMPUTE};

static struct engine_request ask(enum service_class class, uint32_t which, uint32_t count,
                                 uint32_t tokens_max)
{
    static uint32_t tokens[4][STEP_WORLD_CONTEXT];
    for (uint32_t i = 0; i < STEP_WORLD_CONTEXT; i++)
        tokens[which][i] = (i * (which * 2 + 3) + which) % 256;
    struct engine_request request = step_world_request(tokens[which], count, tokens_max, 1);
    request.service_class = class;
    memset(request.tenant.bytes, (int)which + 1, sizeof(request.tenant.bytes));
    return request;
}

static bool lower(struct step_world *world, uint32_t number)
{
    return ticket_lower(&world->tickets, world->told[number].id);
}

static uint32_t clients_of(const struct step_world *world, enum service_class class)
{
    uint32_t requests = 0;
    for (uint32_t i = 0; i < world->step.fair.options.clients; i++)
        if (world->step.fair.clients[i].service_class == class)
            requests += world->step.fair.clients[i].requests;
    return requests;
}

/* Its equals cannot take its pages; lowered it gives them, and goes on to the same end. */
static void test_lowered_while_it_runs(void **state)
{
    (void)state;
    struct step_world *alone = step_world_open(&one_context);
    struct engine_request long_one = ask(SERVICE_CLASS_STANDARD, 0, 380, 100);
    uint32_t undisturbed = step_world_submit(alone, &long_one);
    step_world_run(alone);

    struct step_world *world = step_world_open(&one_context);
    struct engine_request other = ask(SERVICE_CLASS_STANDARD, 1, 300, 4);
    uint32_t first = step_world_submit(world, &long_one);
    while (world->told[first].answers[0].count < 40)
        assert_true(step_world_step(world));
    uint32_t second = step_world_submit(world, &other);
    for (int i = 0; i < 10; i++)
        assert_true(step_world_step(world));
    assert_false(world->told[second].is_started);
    assert_true(lower(world, first));
    uint32_t steps = 0;
    while (!world->told[second].is_over) {
        assert_true(step_world_step(world));
        assert_true(++steps < 20);
    }
    assert_false(world->told[first].is_over);
    assert_int_equal(clients_of(world, SERVICE_CLASS_BATCH), 1);
    assert_int_equal(clients_of(world, SERVICE_CLASS_STANDARD), 0);
    assert_int_equal(atomic_load(&world->tickets.slots[world->told[first].slot].shown_class),
                     SERVICE_CLASS_BATCH);
    step_world_run(world);
    assert_true(step_world_same(&world->told[first], &alone->told[undisturbed]));
    assert_int_equal(world->told[first].report.service_class, SERVICE_CLASS_BATCH);
    assert_int_equal(world->told[first].report.preemptions, 1);
    assert_int_equal(clients_of(world, SERVICE_CLASS_BATCH), 0);
    assert_int_equal(world->tickets.tenant_count, 0);
    assert_false(lower(world, first)); /* its id is stale */
    step_world_close(world);
    step_world_close(alone);
}

/* Of two that wait, the one that was lowered comes behind; so does one lowered on its way. */
static void test_lowered_while_it_waits(void **state)
{
    (void)state;
    for (int on_its_way = 0; on_its_way < 2; on_its_way++) {
        struct step_world *world = step_world_open(&one_context);
        struct engine_request running = ask(SERVICE_CLASS_STANDARD, 0, 380, 60);
        struct engine_request waiting = ask(SERVICE_CLASS_STANDARD, 1, 300, 4);
        struct engine_request later = ask(SERVICE_CLASS_STANDARD, 2, 300, 4);
        uint32_t first = step_world_submit(world, &running);
        while (world->told[first].answers[0].count < 10)
            assert_true(step_world_step(world));
        uint32_t second = step_world_submit(world, &waiting);
        if (!on_its_way)
            assert_true(step_world_step(world));
        assert_true(lower(world, second));
        uint32_t third = step_world_submit(world, &later);
        while (!world->told[third].is_started)
            assert_true(step_world_step(world));
        assert_false(world->told[second].is_started);
        assert_true(lower(world, second)); /* twice is once */
        step_world_run(world);
        assert_int_equal(world->told[second].report.service_class, SERVICE_CLASS_BATCH);
        assert_int_equal(world->told[second].report.completion_tokens, 4);
        assert_int_equal(world->told[third].report.service_class, SERVICE_CLASS_STANDARD);
        step_world_close(world);
    }
}

/* What it has in host memory falls as that of its new class does. */
static void test_lowered_while_it_is_swapped(void **state)
{
    (void)state;
    struct step_world_options options = one_context;
    options.preemption = ENGINE_PREEMPTION_SWAP;
    options.host_pages = 64;
    struct step_world *world = step_world_open(&options);
    struct engine_request running = ask(SERVICE_CLASS_STANDARD, 0, 380, 60);
    struct engine_request urgent = ask(SERVICE_CLASS_REALTIME, 1, 300, 40);
    uint32_t first = step_world_submit(world, &running);
    while (world->told[first].answers[0].count < 10)
        assert_true(step_world_step(world));
    step_world_submit(world, &urgent);
    while (!world->told[first].answers[0].is_paused)
        assert_true(step_world_step(world));
    uint32_t place = world->step.sequences.order[0];
    const struct kv_swap_list *list = kv_swap_list(&world->step.swap, place);
    assert_true(list->host_count > 0);
    assert_int_equal(list->owner.service_class, SERVICE_CLASS_STANDARD);
    assert_true(lower(world, first));
    assert_true(step_world_step(world));
    assert_true(list->host_count > 0);
    assert_int_equal(list->owner.service_class, SERVICE_CLASS_BATCH);
    step_world_run(world);
    assert_int_equal(world->told[first].report.completion_tokens, 60);
    step_world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowered_while_it_runs),
        cmocka_unit_test(test_lowered_while_it_waits),
        cmocka_unit_test(test_lowered_while_it_is_swapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
