#include "engine/step.h"

#include <string.h>

#include "config/base/mem.h"

/* Who is in the batch, and where its logits are. */
struct step_part {
    uint32_t sequence;
    uint32_t rows;
    uint32_t logits_first;
};

/* As many may be throttled as may compute. A place costs 4 bytes a token of the context. */
enum { PLACES_PER_SEQUENCE = 2 };

/* Calls of engine_unpublish that wait for a step: an operator's whole list at once. */
enum { UNPUBLISHED_MAX = 1024 };

/* How long a sleep looks away from a clock that a test moves. */
static const int64_t manual_clock_poll_us = 2000;

/* --- start and end --- */

static uint32_t init_token_bytes_max(const struct vocab *vocab)
{
    size_t most = 0;
    for (uint32_t id = 0; id < vocab_size(vocab); id++) {
        size_t length = vocab_bytes(vocab, id).length;
        most = length > most ? length : most;
    }
    return (uint32_t)most;
}

/* Room for the most events that can wait: LIMIT_UNDELIVERED_TOKENS tokens of each sequence, the end
 * of its choice and its echo mark; start and end of each request. A sequence's place is not taken
 * again before its records are, nor a request's slot, so there are never more. */
static enum status init_outbox(struct step *step)
{
    const struct step_options *options = &step->options;
    size_t text_bytes = LIMIT_STOP_BYTES +
                        3 * ((size_t)init_token_bytes_max(options->vocab) + TEXT_STREAM_TAIL_BYTES);
    size_t token_bytes = outbox_record_bytes(LIMIT_LOGPROBS, text_bytes);
    size_t capacity =
        step->places * (LIMIT_UNDELIVERED_TOKENS * token_bytes +
                        outbox_record_bytes(0, text_bytes) + outbox_record_bytes(0, 0)) +
        2 * (size_t)options->tickets->count * outbox_record_bytes(0, 0);
    return outbox_init(&step->outbox, capacity, token_bytes);
}

static void init_metrics(struct step_metrics *out, struct metrics *metrics)
{
    static const double rows[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
    static const char sequences[] = "banyan_sequences";
    static const char sequences_help[] =
        "Sequences by state, and requests that wait to become some.";
    static const char tokens[] = "banyan_engine_tokens_total";
    static const char tokens_help[] = "Tokens: prompts admitted and tokens generated.";
    static const char pages[] = "banyan_kv_pages";
    static const char pages_help[] = "KV pages by state.";
    if (metrics == NULL)
        return;
    out->tokens_prompt =
        metrics_get(metrics, METRIC_COUNTER, tokens, tokens_help, "kind=\"prompt\"", NULL, 0);
    out->tokens_generated =
        metrics_get(metrics, METRIC_COUNTER, tokens, tokens_help, "kind=\"generated\"", NULL, 0);
    out->batch_rows = metrics_get(metrics, METRIC_HISTOGRAM, "banyan_batch_rows", "Rows of a step.",
                                  "", rows, sizeof(rows) / sizeof(rows[0]));
    out->pages_free =
        metrics_get(metrics, METRIC_GAUGE, pages, pages_help, "state=\"free\"", NULL, 0);
    out->pages_held =
        metrics_get(metrics, METRIC_GAUGE, pages, pages_help, "state=\"active\"", NULL, 0);
    out->sequences_computing = metrics_get(metrics, METRIC_GAUGE, sequences, sequences_help,
                                           "state=\"computing\"", NULL, 0);
    out->sequences_throttled = metrics_get(metrics, METRIC_GAUGE, sequences, sequences_help,
                                           "state=\"throttled\"", NULL, 0);
    out->requests_waiting =
        metrics_get(metrics, METRIC_GAUGE, sequences, sequences_help, "state=\"waiting\"", NULL, 0);
    out->preemptions =
        metrics_get(metrics, METRIC_COUNTER, "banyan_preemptions_total",
                    "Sequences that lost their pages and are computed again.", "", NULL, 0);
    out->queue_seconds = metrics_get(metrics, METRIC_HISTOGRAM, "banyan_queue_seconds",
                                     "From submit to the first row of a request.", "",
                                     METRIC_SECONDS_BUCKETS, METRIC_SECONDS_BUCKET_COUNT);
    out->first_token_seconds =
        metrics_get(metrics, METRIC_HISTOGRAM, "banyan_engine_first_token_seconds",
                    "From submit to the first token of a request.", "", METRIC_SECONDS_BUCKETS,
                    METRIC_SECONDS_BUCKET_COUNT);
    out->inter_token_seconds = metrics_get(metrics, METRIC_HISTOGRAM, "banyan_inter_token_seconds",
                                           "Between two tokens of a sequence.", "",
                                           METRIC_SECONDS_BUCKETS, METRIC_SECONDS_BUCKET_COUNT);
}

static enum status init_arrays(struct step *step)
{
    const struct step_options *options = &step->options;
    size_t sequences = step->places;
    step->waiting = mem_zalloc(options->tickets->count, sizeof(*step->waiting));
    step->view_running = mem_zalloc(sequences, sizeof(*step->view_running));
    step->view_waiting = mem_zalloc(sequences, sizeof(*step->view_waiting));
    step->grants = mem_zalloc(2 * sequences, sizeof(*step->grants));
    step->parts = mem_zalloc(sequences, sizeof(*step->parts));
    step->stats = mem_zalloc(options->logit_rows_max, sizeof(*step->stats));
    if (step->waiting == NULL || step->view_running == NULL || step->view_waiting == NULL ||
        step->grants == NULL || step->parts == NULL || step->stats == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the plan of %zu sequences", sequences);
    return STATUS_OK;
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
        .places = PLACES_PER_SEQUENCE * options->sequences_max,
    };
    TRY(inbox_init(&step->inbox, options->tickets->count));
    TRY_OUT(ring_init(&step->unpublished, UNPUBLISHED_MAX, sizeof(struct engine_domain)));
    TRY_OUT(kv_pool_init(&step->pool, options->kernels, options->layout, options->kv_bytes,
                         options->context));
    TRY_OUT(sequence_table_init(&step->sequences, &step->pool, step->places, options->context));
    TRY_OUT(batch_init(&step->batch, options->rows_max, options->logit_rows_max, step->places));
    TRY_OUT(sampler_init(&step->sampler, step->vocab_count));
    TRY_OUT(init_outbox(step));
    TRY_OUT(init_arrays(step));
    init_metrics(&step->metrics, options->metrics);
    atomic_store(&step->figures.pages_free, step->pool.page_count);
out:
    if (status != STATUS_OK)
        step_deinit(step);
    return status;
}

void step_deinit(struct step *step)
{
    mem_free(step->waiting);
    mem_free(step->view_running);
    mem_free(step->view_waiting);
    mem_free(step->grants);
    mem_free(step->parts);
    mem_free(step->stats);
    outbox_deinit(&step->outbox);
    sampler_deinit(&step->sampler);
    batch_deinit(&step->batch);
    sequence_table_deinit(&step->sequences);
    kv_pool_deinit(&step->pool);
    ring_deinit(&step->unpublished);
    inbox_deinit(&step->inbox);
}

/* --- telling the consumer --- */

static void tell(struct step *step, const struct outbox_record *record,
                 const struct engine_logprob *top, struct slice text)
{
    if (record->sequence != SEQUENCE_NONE)
        step->sequences.slots[record->sequence].records_pushed++;
    bool is_pushed = outbox_push(&step->outbox, record, top, text);
    ASSERT(is_pushed); /* by the sum in init_outbox */
    step->has_emitted = true;
}

static void tell_request(struct step *step, enum engine_event_kind kind, uint32_t slot)
{
    const struct ticket *ticket = &step->options.tickets->slots[slot];
    const struct outbox_record record = {.kind = kind,
                                         .slot = slot,
                                         .sequence = SEQUENCE_NONE,
                                         .tokens_so_far = ticket->report.completion_tokens,
                                         .finish = ticket->report.finish};
    tell(step, &record, NULL, (struct slice){0});
}

static struct outbox_record tell_sequence_record(struct step *step, enum engine_event_kind kind,
                                                 uint32_t index)
{
    const struct sequence *sequence = &step->sequences.slots[index];
    const struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    return (struct outbox_record){.kind = kind,
                                  .slot = sequence->slot,
                                  .sequence = index,
                                  .choice = sequence->choice,
                                  .tokens_so_far = ticket->report.completion_tokens};
}

/* What engine_requests shows of those that run. */
static void tell_requests(struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
        atomic_store_explicit(&ticket->shown_computed, 0, memory_order_relaxed);
    }
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
        enum engine_request_state state = ENGINE_REQUEST_DECODE;
        if (sequence->is_throttled)
            state = ENGINE_REQUEST_THROTTLED;
        else if (sequence->computed < sequence->prompt_count)
            state = ENGINE_REQUEST_PREFILL;
        atomic_store_explicit(&ticket->shown_state, state, memory_order_relaxed);
        atomic_fetch_add_explicit(&ticket->shown_computed, sequence->computed,
                                  memory_order_relaxed);
        atomic_store_explicit(&ticket->shown_completion, ticket->report.completion_tokens,
                              memory_order_relaxed);
    }
}

/* Figures are right before the consumer can see an end. */
static void tell_figures(struct step *step)
{
    struct step_figures *figures = &step->figures;
    uint32_t throttled = sequence_throttled_count(&step->sequences);
    atomic_store_explicit(&figures->throttled, throttled, memory_order_relaxed);
    atomic_store_explicit(&figures->running, step->sequences.order_count, memory_order_relaxed);
    atomic_store_explicit(&figures->waiting, step->waiting_count, memory_order_relaxed);
    atomic_store_explicit(&figures->pages_free, step->pool.free_count, memory_order_relaxed);
    if (step->metrics.pages_free == NULL)
        return;
    metric_set(step->metrics.sequences_throttled, throttled);
    metric_set(step->metrics.sequences_computing, step->sequences.order_count - throttled);
    metric_set(step->metrics.requests_waiting, step->waiting_count);
    metric_set(step->metrics.pages_free, step->pool.free_count);
    metric_set(step->metrics.pages_held, step->pool.page_count - step->pool.free_count);
}

/* --- ends --- */

static void end_choice(struct step *step, uint32_t index, enum engine_finish finish)
{
    struct sequence *sequence = &step->sequences.slots[index];
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    struct outbox_record record = tell_sequence_record(step, ENGINE_EVENT_CHOICE_END, index);
    record.finish = finish;
    ticket->report.finish = finish;
    ticket->choices_ended++;
    sequence_release(&step->sequences, &step->pool, index);
    tell(step, &record, NULL, text_stream_flush(&sequence->text));
}

static void end_started(struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    struct engine_report *report = &ticket->report;
    int64_t first_us = ticket->first_token_us > 0 ? ticket->first_token_us : step->now_us;
    report->queue_us = ticket->queue_us;
    report->prefill_us = first_us - ticket->admitted_us;
    report->decode_us = ticket->last_token_us > first_us ? ticket->last_token_us - first_us : 0;
    ticket->report_end = *report;
    tell_figures(step);
    tell_request(step, ENGINE_EVENT_END, slot);
}

static void end_remove_waiting(struct step *step, uint32_t slot)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < step->waiting_count; i++)
        if (step->waiting[i] != slot)
            step->waiting[kept++] = step->waiting[i];
    step->waiting_count = kept;
}

/* Ends a request from outside, wherever it stands. */
static void end_request(struct step *step, uint32_t slot, enum engine_finish finish)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    end_remove_waiting(step, slot);
    if (ticket->choices_admitted == 0) {
        if (finish == ENGINE_FINISH_CANCELLED)
            status_fail(STATUS_CANCELLED, __FILE__, __LINE__, NULL,
                        "the request was cancelled before it started");
        else
            status_fail(STATUS_DEADLINE, __FILE__, __LINE__, NULL,
                        "the request's time was over before it started");
        ticket->refusal = *status_note();
        tell_figures(step);
        tell_request(step, ENGINE_EVENT_ERROR, slot);
        return;
    }
    for (uint32_t i = step->sequences.order_count; i-- > 0;) {
        uint32_t index = step->sequences.order[i];
        if (step->sequences.slots[index].slot == slot)
            end_choice(step, index, finish);
    }
    ticket->report.finish = finish;
    end_started(step, slot);
}

/* --- before the plan --- */

static void once_take_inbox(struct step *step)
{
    uint32_t slot;
    while (inbox_pop(&step->inbox, &slot)) {
        if (step->options.tickets->slots[slot].refusal.status != STATUS_OK) {
            tell_request(step, ENGINE_EVENT_ERROR, slot);
            continue;
        }
        /* Release: who sees this may read what the prepare thread wrote. */
        atomic_store_explicit(&step->options.tickets->slots[slot].shown_state,
                              ENGINE_REQUEST_WAITING, memory_order_release);
        step->waiting[step->waiting_count++] = slot;
    }
}

static void once_unpublish(struct step *step)
{
    struct engine_domain domain;
    while (ring_pop(&step->unpublished, &domain)) {
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

/* Cancels and deadlines; after an end the lists have changed, so the look starts again. */
static void once_sweep(struct step *step)
{
    for (uint32_t i = 0; i < step->waiting_count;) {
        enum engine_finish verdict = sweep_verdict(step, step->waiting[i]);
        if (verdict == ENGINE_FINISH_NONE)
            i++;
        else
            end_request(step, step->waiting[i], verdict);
    }
    for (uint32_t i = 0; i < step->sequences.order_count;) {
        uint32_t slot = step->sequences.slots[step->sequences.order[i]].slot;
        enum engine_finish verdict = sweep_verdict(step, slot);
        if (verdict == ENGINE_FINISH_NONE) {
            i++;
        } else {
            end_request(step, slot, verdict);
            i = 0;
        }
    }
}

/* Undelivered tokens as the consumer counts them, and records it has not even taken. */
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
        sequence->is_throttled =
            (generated > acknowledged && generated - acknowledged >= LIMIT_UNDELIVERED_TOKENS) ||
            waiting_records >= LIMIT_UNDELIVERED_TOKENS;
    }
}

/* --- the plan --- */

/* How many sequences may be admitted. */
static uint32_t plan_places(struct step *step)
{
    struct sequence_table *table = &step->sequences;
    if (step->waiting_count == 0)
        return 0;
    uint32_t computing = table->order_count - sequence_throttled_count(table);
    uint32_t most = step->options.sequences_max;
    uint32_t wanted = most > computing ? most - computing : 0;
    uint32_t free_count = sequence_free_count(table);
    return wanted < free_count ? wanted : free_count;
}

static void plan_view(struct step *step, struct scheduler_input *input)
{
    struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        step->view_running[i] = (struct scheduler_sequence){
            .tokens = sequence->token_count,
            .computed = sequence->computed,
            .pages = sequence->page_count,
            .pages_back = sequence->page_count,
            .logits_from = sequence_logits_from(sequence),
            .is_throttled = sequence->is_throttled,
        };
    }
    uint32_t places = plan_places(step);
    uint32_t count = 0;
    for (uint32_t i = 0; i < step->waiting_count; i++) {
        const struct ticket *ticket = &step->options.tickets->slots[step->waiting[i]];
        for (uint32_t c = ticket->choices_admitted; c < ticket->asked.choices; c++) {
            if (count == places)
                break;
            step->view_waiting[count++] = (struct scheduler_sequence){
                .tokens = ticket->prompt_count,
                .logits_from = ticket->scores != NULL ? 0 : ticket->prompt_count - 1,
            };
        }
    }
    *input = (struct scheduler_input){
        .running = step->view_running,
        .running_count = table->order_count,
        .waiting = step->view_waiting,
        .waiting_count = count,
        .sequences_free = places,
        .pages_available = step->pool.free_count,
        .page_tokens = step->pool.layout.page_tokens,
        .rows_max = step->options.rows_max,
        .logit_rows_max = step->options.logit_rows_max,
        .mode = step->options.mode,
    };
    if (step_cost_is_known(&step->cost)) {
        input->cost = step->cost.bound;
        input->budget_us = step->options.step_ms * 1000.0;
    }
}

static void plan_start(struct step *step, struct ticket *ticket, uint32_t slot)
{
    ticket->admitted_us = step->now_us;
    ticket->queue_us = step->now_us - ticket->submitted_us;
    ticket->report.prompt_tokens = ticket->prompt_count;
    atomic_fetch_add_explicit(&step->figures.tokens_prompt, ticket->prompt_count,
                              memory_order_relaxed);
    if (step->metrics.tokens_prompt != NULL) {
        metric_add(step->metrics.tokens_prompt, ticket->prompt_count);
        metric_observe(step->metrics.queue_seconds, (double)ticket->queue_us * 1e-6);
    }
    tell_request(step, ENGINE_EVENT_START, slot);
}

/* The first in line becomes a running sequence, the youngest. */
static void plan_admit(struct step *step)
{
    uint32_t slot = step->waiting[0];
    struct ticket *ticket = &step->options.tickets->slots[slot];
    uint32_t choice = ticket->choices_admitted++;
    uint32_t index = sequence_acquire(&step->sequences, ticket, slot, choice);
    ASSERT(index != SEQUENCE_NONE);
    if (choice == 0)
        plan_start(step, ticket, slot);
    if (ticket->choices_admitted == ticket->asked.choices)
        end_remove_waiting(step, slot);
}

static void plan_drop(struct step *step, uint32_t index)
{
    struct sequence *sequence = &step->sequences.slots[index];
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    sequence_drop_pages(sequence, &step->pool);
    ticket->report.preemptions++;
    if (step->metrics.preemptions != NULL)
        metric_add(step->metrics.preemptions, 1);
}

static void plan_add_rows(struct step *step, uint32_t index, uint32_t rows, uint32_t part)
{
    struct sequence *sequence = &step->sequences.slots[index];
    sequence_grow(sequence, &step->pool, sequence->computed + rows);
    const struct batch_part add = {
        .tokens = sequence->tokens,
        .first = sequence->computed,
        .rows = rows,
        .logits_from = sequence_logits_from(sequence),
        .pages = sequence->pages,
        .page_count = sequence->page_count,
        .visible = sequence->visible,
        .visible_count = sequence->visible_count,
    };
    step->parts[part] =
        (struct step_part){.sequence = index,
                           .rows = rows,
                           .logits_first = batch_add(&step->batch, &step->pool, &add)};
}

/* Fills the batch; returns how many sequences are in it. */
static uint32_t once_plan(struct step *step)
{
    struct sequence_table *table = &step->sequences;
    struct scheduler_input input;
    struct scheduler_plan plan;
    plan_view(step, &input);
    scheduler_plan(&input, &plan, step->grants);

    for (uint32_t i = 0; i < input.running_count && plan.dropped > 0; i++)
        if (step->grants[i].drop)
            plan_drop(step, table->order[i]);
    for (uint32_t i = 0; i < plan.admitted; i++) { /* the first so many: nobody follows yet */
        ASSERT(step->grants[input.running_count + i].admit);
        plan_admit(step);
    }
    ASSERT(table->order_count == input.running_count + plan.admitted);

    batch_begin(&step->batch, &step->pool);
    uint32_t parts = 0;
    for (uint32_t i = 0; i < table->order_count; i++)
        if (step->grants[i].rows > 0)
            plan_add_rows(step, table->order[i], step->grants[i].rows, parts++);
    batch_group(&step->batch);

    for (uint32_t i = 0; i < table->count && plan.dropped > 0; i++) {
        struct sequence *sequence = &table->slots[i];
        if (sequence->is_running && sequence->is_throttled && sequence->page_count == 0)
            sequence_make_youngest(table, i);
    }
    return parts;
}

/* --- after the forward pass --- */

static void token_times(struct step *step, struct sequence *sequence, struct ticket *ticket)
{
    const struct step_metrics *metrics = &step->metrics;
    if (metrics->tokens_generated != NULL) {
        metric_add(metrics->tokens_generated, 1);
        if (ticket->first_token_us == 0)
            metric_observe(metrics->first_token_seconds,
                           (double)(step->now_us - ticket->submitted_us) * 1e-6);
        if (sequence->last_token_us > 0)
            metric_observe(metrics->inter_token_seconds,
                           (double)(step->now_us - sequence->last_token_us) * 1e-6);
    }
    if (ticket->first_token_us == 0)
        ticket->first_token_us = step->now_us;
    ticket->last_token_us = step->now_us;
    sequence->last_token_us = step->now_us;
    atomic_fetch_add_explicit(&step->figures.tokens_generated, 1, memory_order_relaxed);
}

static enum engine_finish token_finish(const struct sequence *sequence, const struct ticket *ticket,
                                       bool is_end)
{
    if (is_end || text_stream_is_stopped(&sequence->text))
        return ENGINE_FINISH_STOP;
    if (sequence_generated(sequence) >= ticket->tokens_max)
        return ENGINE_FINISH_LENGTH;
    return ENGINE_FINISH_NONE;
}

/* The request of a choice that ends by itself ends with its last choice. */
static void token_end(struct step *step, uint32_t index, enum engine_finish finish)
{
    uint32_t slot = step->sequences.slots[index].slot;
    const struct ticket *ticket = &step->options.tickets->slots[slot];
    end_choice(step, index, finish);
    if (ticket->choices_ended == ticket->asked.choices)
        end_started(step, slot);
}

/* Chooses the next token of a sequence from its row of logits, and tells it. */
static void once_token(struct step *step, uint32_t index, const float *logits,
                       const struct logits_stats *stats)
{
    struct sequence *sequence = &step->sequences.slots[index];
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    const struct engine_request *asked = &ticket->asked;
    const struct vocab *vocab = step->options.vocab;
    const struct sampler_args args = {
        .logits = logits,
        .stats = stats,
        .sampling = &asked->sampling,
        .choice = sequence->choice,
        .position = sequence->token_count,
        .generated = sequence->tokens + sequence->prompt_count,
        .generated_count = sequence_generated(sequence),
    };
    uint32_t token = sampler_choose(&step->sampler, &args);
    if (asked->echo && args.generated_count == 0) {
        const struct outbox_record mark = tell_sequence_record(step, ENGINE_EVENT_PROMPT, index);
        tell(step, &mark, NULL, (struct slice){0});
        sequence->scored = UINT32_MAX;
    }
    sequence->tokens[sequence->token_count++] = token;
    ticket->report.completion_tokens++;
    token_times(step, sequence, ticket);

    struct engine_logprob top[LIMIT_LOGPROBS];
    struct outbox_record record = tell_sequence_record(step, ENGINE_EVENT_TOKEN, index);
    record.token = token;
    record.logprob = sampler_logprob(logits, stats, token);
    if (asked->want_logprobs)
        record.top_count = sampler_top(logits, stats, step->vocab_count, asked->top_logprobs, top);
    bool is_end = vocab_is_end(vocab, token) && !asked->ignore_end;
    struct slice text = text_stream_push(&sequence->text, vocab_bytes(vocab, token),
                                         is_end || vocab_is_control(vocab, token));
    tell(step, &record, top, text);

    enum engine_finish finish = token_finish(sequence, ticket, is_end);
    if (finish != ENGINE_FINISH_NONE)
        token_end(step, index, finish);
}

/* Echo: row `position` of the prompt gives the log-probability of the token after it. */
static void once_score(struct step *step, const struct sequence *sequence, uint32_t position,
                       const float *logits, const struct logits_stats *stats)
{
    const struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    struct ticket_score *score = ticket_score_at(ticket, sequence->choice, position + 1);
    score->logprob = sampler_logprob(logits, stats, sequence->tokens[position + 1]);
    score->top_count =
        sampler_top(logits, stats, step->vocab_count, ticket->asked.top_logprobs, score->top);
}

static void once_results(struct step *step, const struct step_part *part, const float *logits)
{
    struct sequence *sequence = &step->sequences.slots[part->sequence];
    uint32_t from = sequence_logits_from(sequence);
    uint32_t position = sequence->computed > from ? sequence->computed : from;
    uint32_t end = sequence->computed + part->rows;
    uint32_t last = sequence->token_count - 1;
    sequence->computed = end;
    for (uint32_t row = part->logits_first; position < end; row++, position++) {
        const float *row_logits = logits + (size_t)row * step->vocab_count;
        if (position == last && step->options.tickets->slots[sequence->slot].asked.is_published) {
            token_end(step, part->sequence, ENGINE_FINISH_STOP);
            return;
        }
        if (position == last) {
            once_token(step, part->sequence, row_logits, &step->stats[row]);
            return;
        }
        once_score(step, sequence, position, row_logits, &step->stats[row]);
        sequence->scored = position + 1;
    }
}

static void once_wake(struct step *step)
{
    if (step->has_emitted && step->options.wake != NULL)
        step->options.wake(step->options.wake_context);
    step->has_emitted = false;
}

/* Keys that all rows of a batch read together. */
static uint64_t once_keys(const struct model_batch *batch)
{
    uint64_t keys = 0;
    for (uint32_t row = 0; row < batch->rows; row++)
        keys += batch->kv.position[row] + 1;
    return keys;
}

bool step_once(struct step *step)
{
    step->has_emitted = false;
    step->now_us = clock_mono_us(step->options.clock);
    once_take_inbox(step);
    once_unpublish(step);
    once_sweep(step);
    once_throttle(step);
    uint32_t parts = once_plan(step);
    tell_figures(step);
    once_wake(step); /* a start or an end need not wait for the forward pass */
    if (parts > 0) {
        const struct model_batch *batch = &step->batch.model;
        int64_t began_us = step->now_us;
        const float *logits = model_forward(step->options.model, batch);
        kernels_logits_stats(step->options.kernels, logits, batch->logit_rows, step->vocab_count,
                             step->stats);
        step->now_us = clock_mono_us(step->options.clock);
        step_cost_add(&step->cost, batch->rows, once_keys(batch), step->now_us - began_us);
        atomic_fetch_add_explicit(&step->figures.steps, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&step->figures.rows, batch->rows, memory_order_relaxed);
        if (step->metrics.batch_rows != NULL)
            metric_observe(step->metrics.batch_rows, batch->rows);
        for (uint32_t i = 0; i < parts; i++)
            once_results(step, &step->parts[i], logits);
    }
    ASSERT_SLOW(sequence_table_check(&step->sequences, &step->pool));
    tell_requests(step);
    tell_figures(step);
    once_wake(step);
    return parts > 0;
}

/* Until the next deadline, negative when there is none. */
static int64_t run_sleep_us(const struct step *step)
{
    const struct ticket *tickets = step->options.tickets->slots;
    int64_t deadline_us = INT64_MAX;
    for (uint32_t i = 0; i < step->waiting_count; i++) {
        int64_t own_us = tickets[step->waiting[i]].asked.deadline_us;
        deadline_us = own_us > 0 && own_us < deadline_us ? own_us : deadline_us;
    }
    for (uint32_t i = 0; i < step->sequences.order_count; i++) {
        uint32_t slot = step->sequences.slots[step->sequences.order[i]].slot;
        int64_t own_us = tickets[slot].asked.deadline_us;
        deadline_us = own_us > 0 && own_us < deadline_us ? own_us : deadline_us;
    }
    if (deadline_us == INT64_MAX)
        return -1;
    if (step->options.clock->is_manual)
        return manual_clock_poll_us;
    int64_t left_us = deadline_us - clock_mono_us(step->options.clock);
    return left_us > 0 ? left_us : 0;
}

void step_run(struct step *step)
{
    while (!atomic_load(&step->is_closing))
        if (!step_once(step))
            inbox_wait(&step->inbox, run_sleep_us(step));
}
