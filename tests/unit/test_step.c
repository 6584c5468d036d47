#include "engine/step/step.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "tests/kit/engine_run.h"

/* The step loop without its thread: the test is the engine thread and the consumer. */
struct world {
    struct gguf *gguf;
    struct vocab *vocab;
    struct kernels *kernels;
    struct model *model;
    struct kv_layout layout;
    struct ticket_table tickets;
    struct clock clock;
    struct step step;
    uint32_t wakes;
};

static void wake(void *context)
{
    ((struct world *)context)->wakes++;
}

static struct world *world_open(uint32_t rows_max, uint32_t sequences_max, uint32_t pages)
{
    struct world *world = mem_alloc_aligned(64, (sizeof(*world) + 63) & ~(size_t)63);
    assert_non_null(world);
    memset(world, 0, sizeof(*world));
    clock_manual_init(&world->clock, 1000);
    assert_int_equal(gguf_open(&world->gguf, engine_run_make_model()), STATUS_OK);
    assert_int_equal(vocab_create(&world->vocab, world->gguf), STATUS_OK);
    const struct kernels_options kernels_options = {
        .isa = "ref_int8", .threads = 1, .rows_max = rows_max, .cols_max = 256};
    assert_int_equal(kernels_create(&world->kernels, &kernels_options), STATUS_OK);
    assert_int_equal(model_open(&world->model, world->kernels,
                                &(struct model_source){.gguf = world->gguf}, rows_max, rows_max),
                     STATUS_OK);
    const struct model_config *config = model_config(world->model);
    assert_int_equal(kernels_kv_layout(world->kernels, KV_TYPE_F16, 16, config->layers,
                                       config->kv_heads, config->head_dim, &world->layout),
                     STATUS_OK);
    assert_int_equal(ticket_table_init(&world->tickets, 16, 1 << 20), STATUS_OK);
    const struct step_options options = {
        .kernels = world->kernels,
        .model = world->model,
        .vocab = world->vocab,
        .layout = &world->layout,
        .tickets = &world->tickets,
        .clock = &world->clock,
        .wake = wake,
        .wake_context = world,
        .kv_bytes = pages * world->layout.page_bytes,
        .context = 128,
        .rows_max = rows_max,
        .logit_rows_max = rows_max,
        .sequences_max = sequences_max,
    };
    assert_int_equal(step_init(&world->step, &options), STATUS_OK);
    return world;
}

static void world_close(struct world *world)
{
    step_deinit(&world->step);
    ticket_table_deinit(&world->tickets);
    model_close(world->model);
    kernels_destroy(world->kernels);
    vocab_destroy(world->vocab);
    gguf_close(world->gguf);
    mem_free(world);
    engine_run_remove_model();
}

static uint32_t submit(struct world *world, uint32_t prompt_count, uint32_t tokens_max)
{
    uint32_t tokens[128];
    for (uint32_t i = 0; i < prompt_count; i++)
        tokens[i] = i * 7 % 256;
    const struct engine_request request = {.prompt_kind = ENGINE_PROMPT_TOKENS,
                                           .tokens = tokens,
                                           .token_count = prompt_count,
                                           .choices = 1,
                                           .tokens_max = tokens_max,
                                           .sampling = {.top_p = 1},
                                           .ignore_end = true};
    uint32_t slot;
    engine_request_id id;
    assert_int_equal(
        ticket_acquire(&world->tickets, &request, clock_mono_us(&world->clock), &slot, &id),
        STATUS_OK);
    assert_int_equal(ticket_take_tokens(&world->tickets, slot, 256, 128), STATUS_OK);
    inbox_push(&world->step.inbox, slot);
    return slot;
}

/* Takes the next record as the consumer does; its kind, or -1. */
static int take(struct world *world)
{
    const struct engine_logprob *top;
    struct slice text;
    const struct outbox_record *record = outbox_next(&world->step.outbox, &top, &text);
    if (record == NULL)
        return -1;
    if (record->sequence != SEQUENCE_NONE)
        atomic_fetch_add(&world->step.sequences.slots[record->sequence].records_taken, 1);
    int kind = (int)record->kind;
    if (kind == ENGINE_EVENT_END || kind == ENGINE_EVENT_ERROR)
        ticket_release(&world->tickets, record->slot);
    return kind;
}

static void test_steps_of_one_request(void **state)
{
    (void)state;
    struct world *world = world_open(16, 2, 16);
    struct step *step = &world->step;
    assert_false(step_once(step));
    uint32_t slot = submit(world, 20, 3);
    clock_manual_advance(&world->clock, 500);
    assert_true(step_once(step)); /* 16 rows of the prompt */
    assert_int_equal(take(world), ENGINE_EVENT_START);
    assert_int_equal(take(world), -1);
    assert_int_equal(world->tickets.slots[slot].queue_us, 500);
    assert_int_equal(step->pool.free_count, 15);
    assert_true(step_once(step)); /* 4 rows, and the first token */
    assert_int_equal(take(world), ENGINE_EVENT_TOKEN);
    assert_int_equal(step->pool.free_count, 14);
    assert_true(step_once(step));
    assert_true(step_once(step));
    assert_int_equal(take(world), ENGINE_EVENT_TOKEN);
    assert_int_equal(take(world), ENGINE_EVENT_TOKEN);
    assert_int_equal(take(world), ENGINE_EVENT_CHOICE_END);
    const struct engine_report *report = &world->tickets.slots[slot].report_end;
    assert_int_equal(report->prompt_tokens, 20);
    assert_int_equal(report->completion_tokens, 3);
    assert_int_equal(report->queue_us, 500);
    assert_int_equal(report->finish, ENGINE_FINISH_LENGTH);
    assert_int_equal(take(world), ENGINE_EVENT_END);
    assert_int_equal(take(world), -1);
    assert_false(step_once(step));
    assert_int_equal(atomic_load(&step->figures.steps), 4);
    assert_int_equal(atomic_load(&step->figures.rows), 16 + 4 + 1 + 1);
    assert_int_equal(atomic_load(&step->figures.tokens_prompt), 20);
    assert_int_equal(atomic_load(&step->figures.tokens_generated), 3);
    assert_int_equal(atomic_load(&step->figures.pages_free), 16);
    assert_true(world->wakes >= 4);
    world_close(world);
}

static int refuse(void *context, size_t bytes)
{
    (void)bytes;
    (*(uint32_t *)context)++;
    return 1;
}

/* Prefill, decode, pages taken from the youngest, throttling, ends: without one allocation, and
 * with the consumer asleep the queue of events still holds. */
static void test_no_allocation(void **state)
{
    (void)state;
    struct world *world = world_open(32, 4, 9);
    for (uint32_t i = 0; i < 12; i++)
        submit(world, 20 + i, i % 3 == 0 ? 90 : 40);
    uint32_t allocations = 0;
    uint32_t ends = 0;
    uint32_t rounds = 0;
    mem_hook_set(refuse, &allocations);
    while (ends < 12) {
        assert_true(++rounds < 1000);
        while (step_once(&world->step)) {
            for (uint32_t i = 0; i < world->tickets.count; i++) {
                engine_request_id id = atomic_load(&world->tickets.slots[i].id);
                ticket_acknowledge(&world->tickets, id, 0, 5); /* in advance of delivery */
            }
        }
        for (int kind = take(world); kind != -1; kind = take(world))
            ends += kind == ENGINE_EVENT_END;
    }
    mem_hook_set(NULL, NULL);
    assert_int_equal(allocations, 0);
    assert_int_equal(world->step.pool.free_count, 9);
    world_close(world);
}

static void test_cancel_between_steps(void **state)
{
    (void)state;
    struct world *world = world_open(16, 1, 16);
    struct step *step = &world->step;
    uint32_t first = submit(world, 40, 5);
    uint32_t second = submit(world, 10, 5);
    assert_true(step_once(step));
    assert_int_equal(take(world), ENGINE_EVENT_START);
    assert_int_equal(step->pool.free_count, 15);
    assert_true(ticket_cancel(&world->tickets, atomic_load(&world->tickets.slots[first].id)));
    assert_true(ticket_cancel(&world->tickets, atomic_load(&world->tickets.slots[second].id)));
    assert_false(step_once(step));
    assert_int_equal(step->pool.free_count, 16);
    assert_int_equal(take(world), ENGINE_EVENT_ERROR); /* the one that had not started */
    assert_int_equal(world->tickets.slots[second].refusal.status, STATUS_CANCELLED);
    assert_int_equal(take(world), ENGINE_EVENT_CHOICE_END);
    assert_int_equal(take(world), ENGINE_EVENT_END);
    assert_int_equal(world->tickets.slots[first].report_end.finish, ENGINE_FINISH_CANCELLED);
    assert_int_equal(world->tickets.slots[first].report_end.completion_tokens, 0);
    assert_int_equal(take(world), -1);
    assert_int_equal(atomic_load(&world->tickets.free_count), world->tickets.count);
    world_close(world);
}

static int refuse_after(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- <= 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    struct world *world = world_open(16, 2, 16);
    const struct step_options options = world->step.options;
    step_deinit(&world->step);
    enum status status = STATUS_NO_MEMORY;
    int allowed = 0;
    for (; status != STATUS_OK; allowed++) {
        assert_true(allowed < 100);
        int left = allowed;
        mem_hook_set(refuse_after, &left);
        status = step_init(&world->step, &options);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
    }
    assert_true(allowed > 20);
    world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_of_one_request),
        cmocka_unit_test(test_no_allocation),
        cmocka_unit_test(test_cancel_between_steps),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
