#include "tests/kit/step_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/mem.h"
#include "engine/engine_constrain.h"
#include "engine/models/model_arch.h"
#include "engine/models/model_units.h"
#include "tests/kit/engine_run.h"
#include "tests/kit/late_pages.h"

enum { STEPS_MAX = 100000 };

static void must(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "step_world: %s: %s\n", what, status_note()->message);
    abort();
}

const char *step_world_isa = "ref_int8";
enum kv_type step_world_kv_type = KV_TYPE_F16;
uint32_t step_world_page_tokens = STEP_WORLD_PAGE;
uint32_t step_world_window;

/* Gives every second layer of a model with one kind a window. */
static void open_window(struct model *model)
{
    struct model_config *config = &model->config;
    if (step_world_window == 0 || config->kind_count > 1)
        return;
    config->kind_count = 2;
    config->kinds[1] = config->kinds[0];
    config->kinds[1].window = step_world_window;
    for (uint32_t i = 1; i < config->layers; i += 2)
        config->kind_of[i] = 1;
}

/* Units that the options ask for. */
static uint64_t open_units(const struct step_world *world, const struct step_world_options *options)
{
    const struct kv_pool pool = {.layout = world->layout};
    const uint32_t context = kv_pool_pages_for(&pool, STEP_WORLD_CONTEXT);
    return options->pages + (uint64_t)kv_pool_units_least(&pool, STEP_WORLD_CONTEXT) - context;
}

/* The longest token that fits, from left to right. */
static enum status open_encode(void *context, struct slice text, uint32_t *ids, size_t capacity,
                               size_t *count)
{
    const struct vocab *vocab = context;
    *count = 0;
    while (text.length > 0) {
        uint32_t best = VOCAB_NONE;
        size_t length = 0;
        for (uint32_t id = 0; id < vocab_size(vocab); id++) {
            const struct slice bytes = vocab_bytes(vocab, id);
            if (bytes.length <= length || vocab_is_control(vocab, id) ||
                !slice_starts_with(text, bytes))
                continue;
            best = id;
            length = bytes.length;
        }
        if (best == VOCAB_NONE || *count == capacity)
            return STATUS_LIMIT;
        ids[(*count)++] = best;
        text = (struct slice){text.bytes + length, text.length - length};
    }
    return STATUS_OK;
}

/* Reasoning that every request with a budget begins in; its mark is four tokens. */
static const struct reasoning_marks reasoning = {.open = {"<t>", REASONING_NO_TOKEN},
                                                 .close = {"</t>", REASONING_NO_TOKEN},
                                                 .close_tokens = {'<', '/', 't', '>'},
                                                 .close_count = 4};

struct step_world *step_world_open(const struct step_world_options *options)
{
    struct step_world *world = mem_alloc_aligned(64, (sizeof(*world) + 63) & ~(size_t)63);
    must(world != NULL, "memory");
    memset(world, 0, sizeof(*world));
    clock_manual_init(&world->clock, 1000);
    must(gguf_open(&world->gguf, engine_run_make_model()) == STATUS_OK, "gguf_open");
    must(vocab_create(&world->vocab, world->gguf) == STATUS_OK, "vocab_create");
    const struct kernels_options kernels_options = {
        .isa = options->isa != NULL ? options->isa : step_world_isa,
        .threads = options->threads > 0 ? options->threads : 1,
        .rows_max = options->rows_max,
        .cols_max = 256};
    must(kernels_create(&world->kernels, &kernels_options) == STATUS_OK, "kernels_create");
    must(model_open(&world->model, world->kernels, &(struct model_source){.gguf = world->gguf},
                    options->rows_max, options->rows_max) == STATUS_OK,
         "model_open");
    open_window(world->model);
    const struct model_config *config = model_config(world->model);
    must((options->is_whole ? model_units_layout_whole : model_units_layout)(
             world->kernels, config, config->kv_heads, step_world_kv_type, step_world_page_tokens,
             &world->layout) == STATUS_OK,
         "model_units_layout");
    must(ticket_table_init(&world->tickets, STEP_WORLD_REQUESTS, 16 << 20) == STATUS_OK,
         "ticket_table_init");
    const struct step_options step_options = {
        .kernels = world->kernels,
        .model = world->model,
        .vocab = world->vocab,
        .encode = open_encode,
        .encode_contexts = {world->vocab, world->vocab, world->vocab, world->vocab, world->vocab,
                            world->vocab, world->vocab, world->vocab},
        .reasoning = &reasoning,
        .layout = &world->layout,
        .tickets = &world->tickets,
        .clock = &world->clock,
        .kv_bytes = open_units(world, options) * world->layout.page_bytes,
        .context = STEP_WORLD_CONTEXT,
        .rows_max = options->rows_max,
        .logit_rows_max = options->rows_max,
        .sequences_max = options->sequences_max,
        .mode = options->mode,
        .preemption = options->preemption,
        .speculation = options->speculation,
        .draft_layers = 1, /* of two */
        .acceptance = options->acceptance,
        .class_floor_percent = options->class_floor_percent,
        .no_prefix_cache = options->no_prefix_cache,
        .kv_host_bytes = options->host_pages * world->layout.page_bytes,
        .exchange_pages = options->exchange_pages,
        .pin_percent = options->pin_percent,
        .cache_seed = 1,
    };
    world->is_late = options->late_steps > 0;
    if (world->is_late)
        late_pages_begin(world->kernels, options->late_steps);
    must(step_init(&world->step, &step_options) == STATUS_OK, "step_init");
    if (options->mask_fuel > 0)
        world->step.mask_fuel = options->mask_fuel;
    must(engine_constrain_new(world->vocab, NULL, 0, NULL, NULL, &world->constrain) == STATUS_OK,
         "engine_constrain_new");
    return world;
}

void step_world_close(struct step_world *world)
{
    step_deinit(&world->step);
    if (world->is_late)
        late_pages_end();
    ticket_table_deinit(&world->tickets);
    engine_constrain_free(world->constrain);
    model_close(world->model);
    kernels_destroy(world->kernels);
    vocab_destroy(world->vocab);
    gguf_close(world->gguf);
    mem_free(world);
    engine_run_remove_model();
}

struct engine_domain step_world_domain(uint8_t domain)
{
    struct engine_domain out = {{0}};
    if (domain > 0)
        memset(out.bytes, domain, sizeof(out.bytes));
    return out;
}

struct engine_request step_world_request(const uint32_t *tokens, uint32_t count,
                                         uint32_t tokens_max, uint8_t domain)
{
    return (struct engine_request){.prompt_kind = ENGINE_PROMPT_TOKENS,
                                   .tokens = tokens,
                                   .token_count = count,
                                   .choices = 1,
                                   .tokens_max = tokens_max,
                                   .sampling = {.top_p = 1},
                                   .ignore_end = true,
                                   .domain = step_world_domain(domain)};
}

uint32_t step_world_submit(struct step_world *world, const struct engine_request *request)
{
    must(world->told_count < STEP_WORLD_REQUESTS, "there are too many requests");
    struct step_world_told *told = &world->told[world->told_count];
    struct engine_request own = *request;
    own.context = told;
    must(ticket_acquire(&world->tickets, &own, clock_mono_us(&world->clock), &told->slot,
                        &told->id) == STATUS_OK,
         "ticket_acquire");
    must(ticket_take_tokens(&world->tickets, told->slot, 256, STEP_WORLD_CONTEXT) == STATUS_OK,
         "ticket_take_tokens");
    world->tickets.slots[told->slot].is_in_reasoning = own.limits_reasoning;
    if (own.constraint.is_set)
        must(engine_constrain_take(world->constrain, &world->tickets, told->slot) == STATUS_OK,
             "engine_constrain_take");
    inbox_push(&world->step.inbox, told->slot);
    return world->told_count++;
}

void step_world_cancel(struct step_world *world, uint32_t told)
{
    ticket_cancel(&world->tickets, world->told[told].id);
}

static void take_record(struct step_world *world, const struct outbox_record *record)
{
    struct ticket *ticket = &world->tickets.slots[record->slot];
    struct step_world_told *told = ticket->asked.context;
    struct step_world_answer *answer = &told->answers[record->choice];
    must(!told->is_over, "an event came after the last one");
    must(told->is_started ==
             (record->kind != ENGINE_EVENT_START && record->kind != ENGINE_EVENT_ERROR),
         "an event came out of order");
    if (record->sequence != SEQUENCE_NONE)
        atomic_fetch_add(&world->step.sequences.slots[record->sequence].records_taken, 1);
    if (record->kind == ENGINE_EVENT_START)
        told->is_started = true;
    if (record->kind == ENGINE_EVENT_TOKEN) {
        must(answer->count < STEP_WORLD_TOKENS, "the answer is too long");
        must(!answer->is_paused, "a paused stream produced a token");
        answer->tokens[answer->count] = record->token;
        answer->logprobs[answer->count++] = record->logprob;
        if (!world->holds_acknowledgements)
            ticket_acknowledge(&world->tickets, told->id, record->choice, 1);
    }
    if (record->kind == ENGINE_EVENT_PAUSED || record->kind == ENGINE_EVENT_RESUMED) {
        must(answer->is_paused == (record->kind == ENGINE_EVENT_RESUMED),
             "PAUSED and RESUMED must alternate");
        answer->is_paused = record->kind == ENGINE_EVENT_PAUSED;
        answer->pauses += answer->is_paused;
    }
    if (record->kind == ENGINE_EVENT_CHOICE_END)
        answer->finish = record->finish;
    if (record->kind != ENGINE_EVENT_END && record->kind != ENGINE_EVENT_ERROR)
        return;
    told->is_over = true;
    told->report = ticket->report_end;
    told->refusal = ticket->refusal;
    ticket_release(&world->tickets, record->slot);
}

bool step_world_step(struct step_world *world)
{
    const struct engine_logprob *top;
    struct slice text;
    late_pages_step();
    bool has_moved = step_once(&world->step);
    must(sequence_table_check(&world->step.sequences, &world->step.pool, &world->step.swap),
         "sequences");
    must(prefix_cache_check(&world->step.cache), "prefix cache");
    must(kv_swap_check(&world->step.swap), "swap");
    for (const struct outbox_record *record;
         (record = outbox_next(&world->step.outbox, &top, &text)) != NULL;)
        take_record(world, record);
    return has_moved;
}

uint32_t step_world_run(struct step_world *world)
{
    uint32_t steps = 0;
    while (step_world_step(world))
        must(++steps < STEPS_MAX, "the steps do not end");
    return steps;
}

bool step_world_same(const struct step_world_told *a, const struct step_world_told *b)
{
    for (uint32_t i = 0; i < LIMIT_CHOICES; i++) {
        const struct step_world_answer *x = &a->answers[i];
        const struct step_world_answer *y = &b->answers[i];
        if (x->count != y->count || x->finish != y->finish ||
            memcmp(x->tokens, y->tokens, x->count * sizeof(x->tokens[0])) != 0 ||
            memcmp(x->logprobs, y->logprobs, x->count * sizeof(x->logprobs[0])) != 0)
            return false;
    }
    return true;
}
