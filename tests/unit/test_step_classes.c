#include "engine/step/step_pause.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "engine/step/step_view.h"
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

/* Pages have the price of the tokens that there is room for, whatever their size. */
static void test_residency_of_any_page(void **state)
{
    (void)state;
    double charged[2];
    for (uint32_t larger = 0; larger < 2; larger++) {
        step_world_page_tokens = larger ? 4 * STEP_WORLD_PAGE : STEP_WORLD_PAGE;
        struct step_world_options options = {.rows_max = 64, .sequences_max = 1, .pages = 32};
        struct step_world *world = step_world_open(&options);
        struct engine_request request = ask(SERVICE_CLASS_STANDARD, 0, 192, 1);
        step_world_submit(world, &request);
        step_world_run(world);
        charged[larger] = world->step.fair.clients[0].charged;
        step_world_close(world);
    }
    step_world_page_tokens = STEP_WORLD_PAGE;
    double residency = charged[0] - 192 * SCHEDULER_PRICE_PROMPT - SCHEDULER_PRICE_GENERATED;
    assert_true(residency > 0.1);
    assert_true(residency < 1);
    assert_true(charged[1] - charged[0] < 1e-6);
    assert_true(charged[0] - charged[1] < 1e-6);
}

/* Where layers have two kinds a sequence pays for its units: a page behind the window takes one of
 * the units of a page of all layers. */
static void test_residency_counts_units(void **state)
{
    (void)state;
    enum { ROWS = 64, PROMPT = 5 * ROWS, WINDOW = 21 };
    struct step_world_options options = {.rows_max = ROWS, .sequences_max = 1, .pages = 64};
    struct engine_request request = ask(SERVICE_CLASS_STANDARD, 0, PROMPT, 1);
    step_world_window = WINDOW;
    struct step_world *world = step_world_open(&options);
    const struct kv_pool *pool = &world->step.pool;
    double expected = PROMPT * SCHEDULER_PRICE_PROMPT + SCHEDULER_PRICE_GENERATED;
    uint32_t behind = 0; /* pages behind the window, over all steps */
    assert_true(pool->layout.window_units > 0);
    step_world_submit(world, &request);
    step_world_run(world);
    for (uint32_t computed = ROWS; computed < PROMPT; computed += ROWS) { /* at the end of a step */
        const uint32_t pages = kv_pool_pages_for(pool, computed);
        const uint32_t windows = pages - kv_pool_window_page(pool, computed);
        const uint32_t units = pages + windows * pool->layout.window_units;
        behind += pages - windows;
        expected += SCHEDULER_PRICE_RESIDENCY * units * pool->layout.page_tokens /
                    kv_pool_page_units(pool) / SCHEDULER_RESIDENCY_TOKENS;
    }
    assert_true(behind > 0);
    const double charged = world->step.fair.clients[0].charged;
    assert_true(charged - expected < 1e-6);
    assert_true(expected - charged < 1e-6);
    step_world_close(world);
    step_world_window = 0;
}

/* A prompt that others of its group wait for is paid in equal parts by all tenants that wait, and
 * goes as fast as the most urgent of them. */
static void test_followers_pay_and_hurry(void **state)
{
    (void)state;
    struct step_world_options options = {.rows_max = 32, .sequences_max = 4, .pages = 64};
    struct step_world *world = step_world_open(&options);
    struct engine_request first = ask(SERVICE_CLASS_BATCH, 0, 321, 1);
    struct engine_request second = ask(SERVICE_CLASS_REALTIME, 0, 321, 1);
    memset(second.tenant.bytes, 9, sizeof(second.tenant.bytes));
    uint32_t leader = step_world_submit(world, &first);
    assert_true(step_world_step(world)); /* 32 rows alone */
    uint32_t follower = step_world_submit(world, &second);
    assert_true(step_world_step(world));
    const struct sequence *fill = &world->step.sequences.slots[world->step.sequences.order[0]];
    assert_int_equal(fill->slot, world->told[leader].slot);
    assert_int_equal(fill->followed_class, SERVICE_CLASS_REALTIME);
    assert_int_equal(world->step.view_running[0].service_class, SERVICE_CLASS_REALTIME);
    const struct scheduler_client *clients = world->step.fair.clients;
    assert_true(clients[1].charged == 16);
    assert_true(clients[0].charged > 32 + 16 && clients[0].charged < 32 + 16 + 1);
    step_world_run(world);
    assert_int_equal(world->told[follower].report.cached_tokens, 320);
    assert_true(step_world_same(&world->told[leader], &world->told[follower]));
    step_world_close(world);
}

/* Of a class the throttled give their pages before others. */
static void test_throttled_first(void **state)
{
    (void)state;
    struct step_world_options options = {.rows_max = 64, .sequences_max = 4, .pages = 32};
    struct step_world *world = step_world_open(&options);
    struct engine_request slow = ask(SERVICE_CLASS_BATCH, 0, 150, 120);
    struct engine_request batch = ask(SERVICE_CLASS_BATCH, 1, 120, 120);
    struct engine_request urgent = ask(SERVICE_CLASS_REALTIME, 2, 190, 4);
    world->holds_acknowledgements = true;
    uint32_t stopped = step_world_submit(world, &slow);
    step_world_run(world);
    assert_int_equal(world->told[stopped].answers[0].count, LIMIT_UNDELIVERED_TOKENS);
    world->holds_acknowledgements = false;
    uint32_t running = step_world_submit(world, &batch);
    while (world->told[running].answers[0].count < 8)
        assert_true(step_world_step(world));
    uint32_t third = step_world_submit(world, &urgent);
    while (!world->told[third].is_over)
        assert_true(step_world_step(world));
    const struct ticket *ticket = &world->tickets.slots[world->told[stopped].slot];
    assert_int_equal(ticket->report.preemptions, 1);
    assert_false(world->told[stopped].answers[0].is_paused); /* it stands still by itself */
    assert_int_equal(world->tickets.slots[world->told[running].slot].report.preemptions, 0);
    ticket_acknowledge(&world->tickets, world->told[stopped].id, 0, LIMIT_UNDELIVERED_TOKENS);
    step_world_run(world);
    assert_int_equal(world->told[stopped].report.completion_tokens, 120);
    assert_int_equal(world->told[running].report.completion_tokens, 120);
    step_world_close(world);
}

/* A published prompt that is unpublished, and a domain whose pages are revoked, while its sequence
 * is paused: it ends with everything that it had. */
static void unpublish_while_paused(enum engine_preemption way)
{
    struct step_world_options options = {.rows_max = 32,
                                         .sequences_max = 4,
                                         .pages = 40,
                                         .host_pages = 40,
                                         .pin_percent = 50,
                                         .preemption = way};
    struct step_world *world = step_world_open(&options);
    struct engine_request batch = ask(SERVICE_CLASS_BATCH, 0, 400, 60);
    struct engine_request urgent = ask(SERVICE_CLASS_REALTIME, 1, 400, 30);
    batch.domain = step_world_domain(5);
    uint32_t first = step_world_submit(world, &batch);
    while (world->told[first].answers[0].count < 5)
        assert_true(step_world_step(world));
    uint32_t second = step_world_submit(world, &urgent);
    while (!world->told[first].answers[0].is_paused)
        assert_true(step_world_step(world));
    assert_true(ring_push(&world->step.unpublished, &batch.domain));
    step_world_step(world);
    assert_true(world->told[first].is_over);
    assert_int_equal(world->told[first].report.finish, ENGINE_FINISH_CANCELLED);
    step_world_run(world);
    assert_int_equal(world->told[second].report.completion_tokens, 30);
    assert_int_equal(kv_swap_protected(&world->step.swap), 0);
    step_world_close(world);
}

static void test_unpublish_while_paused(void **state)
{
    (void)state;
    unpublish_while_paused(ENGINE_PREEMPTION_RECOMPUTE);
    unpublish_while_paused(ENGINE_PREEMPTION_SWAP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pause_for_a_class),
        cmocka_unit_test(test_cancel_while_paused),
        cmocka_unit_test(test_preemption_off),
        cmocka_unit_test(test_residency_counts_units),
        cmocka_unit_test(test_residency_of_any_page),
        cmocka_unit_test(test_followers_pay_and_hurry),
        cmocka_unit_test(test_throttled_first),
        cmocka_unit_test(test_unpublish_while_paused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
