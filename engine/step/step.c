#include "engine/step/step.h"

#include <string.h>

#include "config/base/log.h"
#include "config/base/mem.h"
#include "engine/step/step_charge.h"
#include "engine/step/step_choose.h"
#include "engine/step/step_cost.h"
#include "engine/step/step_draft.h"
#include "engine/step/step_embed.h"
#include "engine/step/step_end.h"
#include "engine/step/step_explain.h"
#include "engine/step/step_lower.h"
#include "engine/step/step_mask.h"
#include "engine/step/step_metrics.h"
#include "engine/step/step_plan.h"
#include "engine/step/step_prefix.h"
#include "engine/step/step_queue.h"
#include "engine/step/step_tell.h"
#include "engine/step/step_token.h"
#include "engine/step/step_unpublish.h"
#include "engine/step/step_view.h"

/* There are slots for the sequences that compute and for throttled and preempted ones of each
 * class. A slot costs 4 bytes for each token of the context, of which only what its sequence uses
 * is touched, and the events that may wait. */
enum { SLOTS_PER_SEQUENCE = 4, SLOTS_MORE = 8 };

enum { QUANTUM_DEFAULT = 1024 };

/* Calls of engine_unpublish that may wait for a step: an operator's whole list at once. */
enum { UNPUBLISHED_MAX = 1024 };

/* Units of host memory that merely cached pages never fill, so that a swap-out finds room. */
enum { EXCHANGE_PAGES = 64 };

/* Of the units beyond one full context, at most one in EXCHANGE_SHARE is kept free for copies. */
enum { EXCHANGE_SHARE = 8 };

/* Longest sleep when a test moves the clock: its time does not wake a sleeper. */
static const int64_t manual_clock_poll_us = 2000;

/* Longest sleep while some sequence could compute but was not planned: floors change with time. */
static const int64_t put_off_poll_us = 20000;

/* --- start and end --- */

uint32_t step_places(uint32_t sequences_max)
{
    return SLOTS_PER_SEQUENCE * sequences_max + SLOTS_MORE;
}

static uint32_t init_token_bytes_max(const struct vocab *vocab)
{
    size_t most = 0;
    for (uint32_t id = 0; id < vocab_size(vocab); id++) {
        size_t length = vocab_bytes(vocab, id).length;
        most = length > most ? length : most;
    }
    return (uint32_t)most;
}

/* Room for all events that can wait. For each sequence slot: LIMIT_UNDELIVERED_TOKENS tokens, the
 * end of its choice, the mark of its echo, and beyond the bound one PAUSED and one RESUMED. For
 * each request: its start and its end. Neither a sequence slot nor a ticket is reused before the
 * consumer has taken its records, so there are never more. */
static enum status init_outbox(struct step *step)
{
    const struct step_options *options = &step->options;
    size_t text_bytes = LIMIT_STOP_BYTES +
                        3 * ((size_t)init_token_bytes_max(options->vocab) + TEXT_DECODE_TAIL_BYTES);
    size_t token_bytes = outbox_record_bytes(LIMIT_LOGPROBS, text_bytes);
    /* An embedding comes in place of all tokens of a sequence. */
    size_t vector_bytes = outbox_record_bytes(0, step->embed.width * sizeof(float));
    size_t tokens_bytes = LIMIT_UNDELIVERED_TOKENS * token_bytes;
    tokens_bytes = tokens_bytes > vector_bytes ? tokens_bytes : vector_bytes;
    size_t capacity = step->places * (tokens_bytes + outbox_record_bytes(0, text_bytes) +
                                      3 * outbox_record_bytes(0, 0)) +
                      2 * (size_t)options->tickets->count * outbox_record_bytes(0, 0);
    return outbox_init(&step->outbox, capacity,
                       token_bytes > vector_bytes ? token_bytes : vector_bytes);
}

static enum status init_arrays(struct step *step)
{
    const struct step_options *options = &step->options;
    size_t sequences = step->places;
    size_t candidates = step->candidates_max;
    step->heads = mem_zalloc(candidates, sizeof(*step->heads));
    step->fills = mem_zalloc(sequences, sizeof(*step->fills));
    step->follows = mem_zalloc(options->tickets->count, sizeof(*step->follows));
    step->view_running = mem_zalloc(sequences, sizeof(*step->view_running));
    step->view_waiting = mem_zalloc(candidates, sizeof(*step->view_waiting));
    step->published = mem_zalloc(LIMIT_PROMPTS, sizeof(*step->published));
    step->pages_gone = mem_zalloc(step->pool.unit_count, sizeof(*step->pages_gone));
    step->needs_gone = mem_zalloc(step->pool.unit_count, sizeof(*step->needs_gone));
    step->candidates = mem_zalloc(candidates, sizeof(*step->candidates));
    step->grants = mem_zalloc(sequences + candidates, sizeof(*step->grants));
    step->parts = mem_zalloc(sequences, sizeof(*step->parts));
    step->masked = mem_zalloc(sequences, sizeof(*step->masked));
    step->ends = mem_zalloc(step->vocab_count, sizeof(*step->ends));
    if (step->heads == NULL || step->fills == NULL || step->follows == NULL ||
        step->view_running == NULL || step->view_waiting == NULL || step->candidates == NULL ||
        step->pages_gone == NULL || step->needs_gone == NULL || step->published == NULL ||
        step->grants == NULL || step->parts == NULL || step->masked == NULL || step->ends == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the plan of %zu sequences", sequences);
    for (uint32_t id = 0; id < step->vocab_count; id++)
        if (vocab_is_end(options->vocab, id))
            step->ends[step->end_count++] = id;
    step->bans = mem_zalloc(sequences * (step->end_count + LIMIT_STOP_TOKENS), sizeof(*step->bans));
    if (step->bans == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the end tokens of %zu sequences", sequences);
    return STATUS_OK;
}

static uint32_t init_exchange(const struct step *step)
{
    const struct kv_pool *pool = &step->pool;
    uint32_t beside = pool->unit_count - kv_pool_units_least(pool, step->options.context);
    uint32_t share = beside / EXCHANGE_SHARE;
    if (step->options.kv_host_bytes < pool->layout.page_bytes)
        return 0; /* without host memory nothing is ever copied */
    return step->options.exchange_pages < share ? step->options.exchange_pages : share;
}

/* The part of the layers that look back less than the others. */
static void init_cost(struct step *step)
{
    const struct model_config *config = model_config(step->options.model);
    uint32_t few = 0;
    if (config->kind_count < 2 || (config->kinds[0].window > 0) == (config->kinds[1].window > 0))
        return;
    const uint32_t second = config->kinds[1].window > 0 ? 1 : 0;
    for (uint32_t i = 0; i < config->layers; i++)
        few += config->kind_of[i] == second;
    step_cost_kinds(&step->cost, config->kinds[second].window, (double)few / config->layers);
}

enum status step_init(struct step *step, const struct step_options *options)
{
    enum status status = STATUS_OK;
    ASSERT(options->rows_max > 0);
    ASSERT(options->logit_rows_max > 0);
    ASSERT(options->sequences_max > 0);
    *step = (struct step){
        .options = *options,
        .vocab_count = vocab_size(options->vocab),
        .places = step_places(options->sequences_max),
        .find_tokens_most = STEP_PREFIX_FIND_TOKENS,
    };
    step->candidates_max = step->places + STEP_VIEW_CANDIDATES;
    pthread_mutex_init(&step->published_lock, NULL);
    TRY(inbox_init(&step->inbox, options->tickets->count));
    TRY_OUT(ring_init(&step->unpublished, UNPUBLISHED_MAX, sizeof(struct engine_domain)));
    TRY_OUT(kv_pool_init(&step->pool, options->kernels, options->layout, options->kv_bytes,
                         options->context));
    const struct prefix_cache_options cache_options = {
        .kernels = options->kernels,
        .pool = &step->pool,
        .host_bytes = options->kv_host_bytes,
        .context = options->context,
        .pin_percent = options->pin_percent,
        .seed = options->cache_seed,
        .exchange = init_exchange(step),
        .is_off = options->no_prefix_cache,
    };
    TRY_OUT(prefix_cache_init(&step->cache, &cache_options));
    const struct kv_swap_options swap_options = {
        .cache = &step->cache,
        .kernels = options->kernels,
        .clock = options->clock,
        .places = step->places,
        .context = options->context,
        .exchange_pages = EXCHANGE_PAGES,
    };
    TRY_OUT(kv_swap_init(&step->swap, &swap_options));
    TRY_OUT(sequence_table_init(&step->sequences, &step->pool, step->places, options->context));
    TRY_OUT(batch_init(&step->batch, options->rows_max, options->logit_rows_max, step->places));
    TRY_OUT(batch_init_windows(&step->batch, options->layout, options->context));
    TRY_OUT(kv_open_init(&step->open, options->kernels, options->layout, step->places,
                         options->rows_max));
    TRY_OUT(drawer_init(&step->drawer, options->kernels, step->vocab_count, options->logit_rows_max,
                        step->places, options->context));
    TRY_OUT(step_embed_init(step)); /* before the outbox, which has room for embeddings */
    TRY_OUT(init_outbox(step));
    TRY_OUT(step_queue_init(&step->queue, options->tickets));
    const struct scheduler_fair_options fair_options = {
        .clients = options->tickets->count,
        .quantum = options->fair_quantum > 0 ? options->fair_quantum : QUANTUM_DEFAULT,
        .floor_percent = options->class_floor_percent,
        .rows_max = options->rows_max,
        .sequences_max = options->sequences_max,
        .context = options->context,
    };
    TRY_OUT(scheduler_fair_init(&step->fair, &fair_options));
    TRY_OUT(init_arrays(step));
    if (options->speculation != ENGINE_SPECULATION_OFF)
        TRY_OUT(step_draft_init(&step->draft, step->places, step->vocab_count));
    if (options->speculation == ENGINE_SPECULATION_EXIT)
        TRY_OUT(step_draft_init_exit(step, options->draft_layers));
    step->mask_fuel = LIMIT_GRAMMAR_MASK_FUEL;
    init_cost(step);
    step_metrics_init(&step->metrics, options->metrics, options->metrics_label);
    atomic_store(&step->figures.pages_free, step->pool.unit_count);
out:
    if (status != STATUS_OK)
        step_deinit(step);
    return status;
}

void step_deinit(struct step *step)
{
    step_draft_deinit(&step->draft);
    step_embed_deinit(step);
    step_queue_deinit(&step->queue);
    scheduler_fair_deinit(&step->fair);
    mem_free(step->heads);
    mem_free(step->fills);
    mem_free(step->follows);
    mem_free(step->view_running);
    mem_free(step->view_waiting);
    mem_free(step->candidates);
    mem_free(step->pages_gone);
    mem_free(step->needs_gone);
    mem_free(step->published);
    pthread_mutex_destroy(&step->published_lock);
    mem_free(step->grants);
    mem_free(step->parts);
    mem_free(step->masked);
    mem_free(step->ends);
    mem_free(step->bans);
    outbox_deinit(&step->outbox);
    drawer_deinit(&step->drawer);
    batch_deinit(&step->batch);
    kv_open_deinit(&step->open);
    sequence_table_deinit(&step->sequences);
    kv_swap_deinit(&step->swap);
    prefix_cache_deinit(&step->cache);
    kv_pool_deinit(&step->pool);
    ring_deinit(&step->unpublished);
    inbox_deinit(&step->inbox);
}

/* --- before the plan --- */

static void once_take_inbox(struct step *step)
{
    uint32_t slot;
    step_prefix_begin_finds(step); /* step_explain_in_time looks prompts up */
    while (inbox_pop(&step->inbox, &slot)) {
        if (step->options.tickets->slots[slot].refusal.status != STATUS_OK) {
            step_tell_request(step, ENGINE_EVENT_ERROR, slot);
            continue;
        }
        /* Release: a thread that reads this state may read what the prepare thread wrote. */
        atomic_store_explicit(&step->options.tickets->slots[slot].shown_state,
                              ENGINE_REQUEST_WAITING, memory_order_release);
        step_lower_arrived(step, slot);
        step_charge_enter(step, slot);
        step_queue_enter(&step->queue, slot);
        /* A cancel that came earlier was counted while no list here had the request. */
        if (ticket_is_cancelled(&step->options.tickets->slots[slot]))
            step_end_request(step, slot, ENGINE_FINISH_CANCELLED);
        else if (!step_explain_in_time(step, slot))
            step_end_refuse(step, slot);
    }
}

static enum engine_finish sweep_verdict(const struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    if (ticket_is_cancelled(ticket))
        return ENGINE_FINISH_CANCELLED;
    if (ticket->asked.deadline_us > 0 && step->now_us >= ticket->asked.deadline_us)
        return ENGINE_FINISH_DEADLINE;
    return ENGINE_FINISH_NONE;
}

/* Looks through the queue only after a cancel or when a deadline has passed: thousands may wait. */
static void sweep_waiting(struct step *step, uint32_t cancels)
{
    struct step_queue *queue = &step->queue;
    bool is_late = step->now_us >= queue->deadline_us;
    if (cancels == step->cancels_seen && !is_late)
        return;
    step->cancels_seen = cancels;
    for (uint32_t slot = queue->all.first; slot != TICKET_NONE;) {
        uint32_t after = step->options.tickets->slots[slot].in_all.after;
        enum engine_finish verdict = sweep_verdict(step, slot);
        if (verdict != ENGINE_FINISH_NONE)
            step_end_request(step, slot, verdict);
        slot = after;
    }
    if (is_late)
        step_queue_find_deadline(queue);
}

/* Ends cancelled and late requests, and choices whose grammar became too complex. An end changes
 * the list, so the search starts again. */
static void once_sweep(struct step *step, uint32_t cancels)
{
    sweep_waiting(step, cancels);
    for (uint32_t i = 0; i < step->sequences.order_count;) {
        const uint32_t index = step->sequences.order[i];
        const uint32_t slot = step->sequences.slots[index].slot;
        const struct guard *guard = step_guard(step, &step->sequences.slots[index]);
        enum engine_finish verdict = sweep_verdict(step, slot);
        i++;
        if (verdict != ENGINE_FINISH_NONE)
            step_end_request(step, slot, verdict);
        else if (guard != NULL && guard->is_broken && step->sequences.slots[index].forced == 0)
            step_end_own(step, index, ENGINE_FINISH_GRAMMAR);
        else
            continue;
        i = 0;
    }
}

/* A sequence is throttled by tokens that the consumer has not acknowledged, and by records that it
 * has not taken from the outbox yet. */
static void once_throttle(struct step *step)
{
    for (uint32_t i = 0; i < step->sequences.order_count; i++) {
        struct sequence *sequence = &step->sequences.slots[step->sequences.order[i]];
        struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
        uint32_t acknowledged = ticket_acknowledged(ticket, sequence->choice);
        uint32_t generated = sequence_generated(sequence);
        uint32_t waiting_records =
            sequence->records_pushed -
            atomic_load_explicit(&sequence->records_taken, memory_order_acquire);
        uint32_t unseen = generated > acknowledged ? generated - acknowledged : 0;
        sequence->undelivered = unseen > waiting_records ? unseen : waiting_records;
        sequence->is_throttled = sequence->undelivered >= LIMIT_UNDELIVERED_TOKENS;
    }
}

static void once_wake(struct step *step)
{
    if (step->has_emitted && step->options.wake != NULL)
        step->options.wake(step->options.wake_context);
    step->has_emitted = false;
}

/* Keys that the rows of a batch read, summed over the rows. */
static double once_keys(const struct step *step, const struct model_batch *batch)
{
    double keys = 0;
    for (uint32_t row = 0; row < batch->rows; row++)
        keys += scheduler_cost_keys(&step->cost.fit, batch->kv.position[row], 1);
    return keys;
}

/* Ends all requests. Requests that come later end when they come, by the same call. */
static void once_end_all(struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    while (table->order_count > 0)
        step_end_request(step, table->slots[table->order[0]].slot, ENGINE_FINISH_ERROR);
    while (step->queue.all.first != TICKET_NONE)
        step_end_request(step, step->queue.all.first, ENGINE_FINISH_ERROR);
}

/* The device has failed; the error note says how. */
static void once_fail(struct step *step)
{
    LOG(LOG_ERROR, "engine_failed", LOG_NUMBER("engine", step->options.index),
        LOG_TEXT("error", status_note()->message));
    atomic_store(&step->is_failed, true);
    once_end_all(step);
}

/* Ends one timed part of the step and begins the next. */
static void once_time(struct step *step, enum step_time part, int64_t *began_ns)
{
    int64_t now_ns = clock_mono_ns(step->options.clock);
    step_metrics_time(step, part, now_ns - *began_ns);
    *began_ns = now_ns;
}

/* Computes the batch. That of an encoder may have no rows, and has no logits. */
static enum status compute_forward(struct step *step, const struct model_batch *batch)
{
    if (!step->options.is_encoder)
        return drawer_read(&step->drawer, model_forward(step->options.model, batch),
                           batch->logit_rows);
    if (batch->rows > 0 && model_forward(step->options.model, batch) == NULL)
        return STATUS_UNAVAILABLE;
    return STATUS_OK;
}

/* Computes the batch of `parts` parts and samples its tokens. */
static enum status once_compute(struct step *step, uint32_t parts, int64_t *began_ns)
{
    const struct model_batch *batch = &step->batch.model;
    int64_t began_us = step->now_us + step->draft.model_us;
    *began_ns += 1000 * step->draft.model_us;
    step_metrics_time(step, STEP_TIME_GUESS, 1000 * step->draft.model_us);
    once_time(step, STEP_TIME_PLAN, began_ns);
    step_choose_ask(step, parts);
    TRY(compute_forward(step, batch));
    TRY(step_embed_read(step, parts));
    step->now_us = clock_mono_us(step->options.clock);
    once_time(step, STEP_TIME_FORWARD, began_ns);
    if (batch->rows > 0)
        step_cost_add(&step->cost, batch->rows, once_keys(step, batch), step->now_us - began_us);
    atomic_fetch_add_explicit(&step->figures.steps, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&step->figures.rows, batch->rows, memory_order_relaxed);
    step_metrics_rows(step, parts);
    drawer_run(&step->drawer);
    int64_t drawn_ns = *began_ns;
    once_time(step, STEP_TIME_CHOOSE, began_ns);
    step_cost_draw(&step->cost, step->drawer.work, (double)(*began_ns - drawn_ns) / 1000);
    for (uint32_t i = 0; i < parts; i++)
        step_token_results(step, &step->parts[i]);
    step_charge_pages(step);
    return STATUS_OK;
}

bool step_once(struct step *step)
{
    int64_t began_ns = clock_mono_ns(step->options.clock);
    step->has_emitted = false;
    step->turn++;
    step->now_us = began_ns / 1000;
    uint32_t cancels = atomic_load(&step->options.tickets->cancels);
    kv_pool_land(&step->pool);
    once_take_inbox(step);
    step_unpublish(step);
    if (atomic_load_explicit(&step->is_failed, memory_order_relaxed)) {
        once_end_all(step);
        once_wake(step);
        return false;
    }
    once_sweep(step, cancels);
    step_lower_all(step);
    once_throttle(step);
    bool has_moved = false;
    uint32_t parts = step_plan(step, &has_moved);
    step_tell_figures(step);
    once_wake(step); /* the START or END of a request need not wait for the forward pass */
    if (parts > 0 && once_compute(step, parts, &began_ns) != STATUS_OK)
        once_fail(step);
    ASSERT_SLOW(step_queue_check(&step->queue));
    ASSERT_SLOW(sequence_table_check(&step->sequences, &step->pool, &step->swap));
    ASSERT_SLOW(kv_swap_check(&step->swap));
    ASSERT_SLOW(prefix_cache_check(&step->cache));
    step_tell_requests(step);
    step_tell_figures(step);
    once_wake(step);
    if (parts > 0)
        once_time(step, STEP_TIME_DELIVER, &began_ns);
    return has_moved;
}

/* Microseconds until the engine thread has to look again; negative = until the inbox is rung. */
static int64_t run_sleep_us(const struct step *step)
{
    const struct ticket *tickets = step->options.tickets->slots;
    int64_t deadline_us = step->queue.deadline_us;
    bool is_put_off = step->queue.all.count > 0;
    for (uint32_t i = 0; i < step->sequences.order_count; i++) {
        const struct sequence *sequence = &step->sequences.slots[step->sequences.order[i]];
        uint32_t slot = sequence->slot;
        is_put_off = is_put_off || !sequence->is_throttled;
        int64_t own_us = tickets[slot].asked.deadline_us;
        deadline_us = own_us > 0 && own_us < deadline_us ? own_us : deadline_us;
    }
    if (deadline_us == INT64_MAX && !is_put_off)
        return -1;
    if (step->options.clock->is_manual)
        return manual_clock_poll_us;
    int64_t left_us =
        deadline_us == INT64_MAX ? INT64_MAX : deadline_us - clock_mono_us(step->options.clock);
    if (is_put_off && left_us > put_off_poll_us)
        return put_off_poll_us;
    return left_us > 0 ? left_us : 0;
}

/* As run_sleep_us, but short enough for the pulse, which shows that this thread lives. */
static int64_t run_nap_us(const struct step *step)
{
    const int64_t sleep_us = run_sleep_us(step);
    const int64_t most_us = PULSE_EVERY_MS * INT64_C(1000);
    bool is_longer = sleep_us < 0 || sleep_us > most_us;
    return step->options.pulse != NULL && is_longer ? most_us : sleep_us;
}

void step_run(struct step *step)
{
    while (!atomic_load(&step->is_closing)) {
        pulse_beat(step->options.pulse, PULSE_ENGINE + step->options.index);
        if (!step_once(step))
            inbox_wait(&step->inbox, run_nap_us(step));
    }
}
