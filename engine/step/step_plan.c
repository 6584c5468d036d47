#include "engine/step/step_plan.h"

#include <string.h>

#include "engine/step/step_draft.h"
#include "engine/step/step_end.h"
#include "engine/step/step_explain.h"
#include "engine/step/step_force.h"
#include "engine/step/step_load.h"
#include "engine/step/step_mask.h"
#include "engine/step/step_pause.h"
#include "engine/step/step_prefix.h"
#include "engine/step/step_tell.h"
#include "engine/step/step_view.h"

/* Steps that a sequence is put off while its pages are copied; after them the step waits. */
enum { ARRIVING_STEPS_MAX = 8 };

static void plan_start(struct step *step, struct ticket *ticket)
{
    ticket->admitted_us = step->now_us;
    step_explain_admitted(step, ticket);
    ticket->queue_us = step->now_us - ticket->submitted_us;
    ticket->report.prompt_tokens = ticket->prompt_count;
    atomic_fetch_add_explicit(&step->figures.tokens_prompt, ticket->prompt_count,
                              memory_order_relaxed);
    if (step->metrics.tokens_prompt != NULL) {
        metric_add(step->metrics.tokens_prompt, ticket->prompt_count);
        metric_observe(step->metrics.classes[ticket->asked.service_class].queue_seconds,
                       (double)ticket->queue_us * 1e-6);
    }
}

/* Emits START events, after the lookup in the cache: a START says how much was found. */
static void plan_tell_starts(struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        uint32_t slot = table->slots[table->order[i]].slot;
        struct ticket *ticket = &step->options.tickets->slots[slot];
        if (!ticket->is_start_told)
            step_tell_request(step, ENGINE_EVENT_START, slot);
        ticket->is_start_told = true;
    }
}

/* Counts, for each earlier request of the same client that has not started, that it was passed. */
static void plan_pass(struct step *step, const struct ticket *ticket)
{
    struct ticket *tickets = step->options.tickets->slots;
    for (uint32_t slot = ticket->in_client.before, i = 0;
         slot != TICKET_NONE && i < STEP_VIEW_DEPTH && ticket->choices_admitted == 0; i++) {
        tickets[slot].passed++;
        slot = tickets[slot].in_client.before;
    }
}

/* Reasoning has a budget, or comes before what a constraint of the whole answer says. */
static void plan_reasoning(struct step *step, const struct ticket *ticket, uint32_t index)
{
    struct sequence *sequence = &step->sequences.slots[index];
    const struct engine_request *asked = &ticket->asked;
    const bool has_calls = asked->constraint.is_calls || asked->inputs.tools.length > 0;
    sequence->is_reasoning = step->options.reasoning != NULL && ticket->is_in_reasoning &&
                             asked->constraint.is_set && !asked->constraint.is_calls;
    /* A constraint of the whole answer leaves no room for reasoning that the prompt did not open:
     * a mark within the answer is content. */
    const bool may_reason =
        !asked->constraint.is_set || asked->constraint.is_calls || sequence->is_reasoning;
    if (step->options.reasoning != NULL && may_reason &&
        (asked->limits_reasoning || sequence->is_reasoning))
        reasoning_budget_begin(&sequence->budget, step->options.reasoning,
                               asked->limits_reasoning ? asked->reasoning_max : UINT32_MAX,
                               ticket->is_in_reasoning, has_calls);
}

/* A candidate becomes a running sequence, the youngest; false when the request is refused. */
static bool plan_admit(struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    if (step_prefix_check_pin(step, ticket) != STATUS_OK) {
        step_end_refuse(step, slot);
        return false;
    }
    plan_pass(step, ticket);
    uint32_t choice = ticket->choices_admitted++;
    uint32_t index = sequence_acquire(&step->sequences, ticket, slot, choice);
    ASSERT(index != SEQUENCE_NONE);
    plan_reasoning(step, ticket, index);
    if (choice == 0)
        plan_start(step, ticket);
    if (ticket->choices_admitted == ticket->asked.choices)
        step_queue_leave(&step->queue, slot);
    return true;
}

/* Preempts and admits. The grants and views of admitted candidates move up behind those of the
 * running sequences, so that both arrays are indexed by the order. */
static void plan_sequences(struct step *step, uint32_t running)
{
    struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < running; i++)
        kv_swap_keep(&step->swap, table->order[i], step->grants[i].act == SCHEDULER_RESUME);
    for (uint32_t i = 0; i < running; i++)
        if (step->grants[i].act == SCHEDULER_PAUSE)
            step_pause(step, table->order[i], &step->grants[i]);
    for (uint32_t i = 0; i < step->candidate_count; i++) {
        struct scheduler_grant grant = step->grants[running + i];
        if (grant.act != SCHEDULER_ADMIT || !plan_admit(step, step->candidates[i]))
            continue;
        uint32_t place = table->order_count - 1;
        step->grants[place] = grant;
        step->view_running[place] = step->view_waiting[i];
    }
}

/* Whether a sequence with rows waits for pages that are being copied, within its bound of steps. */
static bool plan_is_arriving(const struct step *step, uint32_t place)
{
    const struct sequence *sequence = &step->sequences.slots[step->sequences.order[place]];
    return step->grants[place].rows > 0 && sequence->arriving_steps < ARRIVING_STEPS_MAX &&
           kv_pool_are_flying(&step->pool, sequence->pages, sequence->page_count);
}

/* A sequence that was swapped in, or found pages in host memory, gets rows when the copies are
 * done. Meanwhile other sequences compute; if there is none, the step waits for the copies. */
static void plan_arrivals(struct step *step)
{
    const uint32_t count = step->sequences.order_count;
    uint32_t others = 0;
    if (step->pool.ended == step->pool.begun)
        return;
    for (uint32_t i = 0; i < count; i++)
        others += step->grants[i].rows > 0 && !plan_is_arriving(step, i);
    for (uint32_t i = 0; others > 0 && i < count; i++) {
        if (!plan_is_arriving(step, i))
            continue;
        step->grants[i].rows = 0;
        step->sequences.slots[step->sequences.order[i]].arriving_steps++;
        step->arrivals++;
    }
}

/* Takes the pages for the planned rows of a sequence; returns the number of rows. When fewer
 * tokens were found or fewer pages are left than the plan was shown, the rows are fewer, or none
 * until the next step. */
static uint32_t plan_rows(struct step *step, uint32_t place)
{
    struct sequence *sequence = &step->sequences.slots[step->sequences.order[place]];
    uint32_t rows = step->grants[place].rows;
    uint32_t end = step->view_running[place].computed + rows;
    if (end <= sequence->computed)
        return 0;
    if (rows > end - sequence->computed)
        rows = end - sequence->computed;
    uint32_t wanted = kv_pool_pages_for(&step->pool, sequence->computed + rows);
    uint32_t missing = wanted > sequence->page_count ? wanted - sequence->page_count : 0;
    const uint32_t page_units = kv_pool_page_units(&step->pool);
    step_pause_room(step, missing * page_units);
    if (!prefix_cache_make_room(&step->cache, missing * page_units)) {
        uint32_t room = (sequence->page_count + step->pool.free_count / page_units) *
                        step->pool.layout.page_tokens;
        if (room <= sequence->computed)
            return 0;
        rows = room - sequence->computed < rows ? room - sequence->computed : rows;
    }
    sequence_grow(sequence, &step->pool, sequence->computed + rows);
    kv_pool_wait(&step->pool, sequence->pages, sequence->page_count);
    return rows;
}

/* A text of an encoder is computed whole, in the step of its last planned row: until then its rows
 * are only counted. Returns fewer rows where its text does not fit in the batch beside the `used`
 * rows of others, so that the last one comes in another step. */
static uint32_t plan_whole(const struct step *step, uint32_t place, uint32_t rows, uint32_t *used)
{
    const struct sequence *sequence = &step->sequences.slots[step->sequences.order[place]];
    if (sequence->computed + rows < sequence->token_count)
        return rows;
    if (sequence->token_count > step->options.rows_max - *used)
        return rows - 1;
    *used += sequence->token_count;
    return rows;
}

static void plan_add(struct step *step, struct step_part *part)
{
    const struct sequence *sequence = &step->sequences.slots[part->sequence];
    const bool is_whole = step->options.is_encoder;
    if (is_whole && sequence->computed + part->rows < sequence->token_count)
        return;
    const struct batch_part add = {
        .place = part->sequence,
        .serial = sequence->serial,
        .tokens = sequence->tokens,
        .first = is_whole ? 0 : sequence->computed,
        .rows = is_whole ? sequence->token_count : part->rows + part->forced + part->drafts,
        .logits_from = step_force_logits_from(step, sequence),
        .pages = sequence->pages,
        .page_count = sequence->page_count,
        .visible = sequence->visible,
        .visible_count = sequence->visible_count,
    };
    part->logits_first = batch_add(&step->batch, &step->pool, &add);
}

/* Fills step->parts and the batch; returns the number of parts. Draft tokens are added when all
 * planned rows have their pages. */
static uint32_t plan_parts(struct step *step, const struct scheduler_input *input, bool is_shared)
{
    uint32_t parts = 0;
    uint32_t used = 0;
    for (uint32_t i = 0; i < step->sequences.order_count; i++) {
        uint32_t rows = step->grants[i].rows > 0 ? plan_rows(step, i) : 0;
        if (rows > 0 && step->options.is_encoder)
            rows = plan_whole(step, i, rows, &used);
        if (rows > 0)
            step->parts[parts++] =
                (struct step_part){.sequence = step->sequences.order[i], .rows = rows};
    }
    double limit_us = input->urgent_us > 0 ? input->urgent_us : input->budget_us;
    if (is_shared && (limit_us <= 0 || input->shared_us < limit_us))
        limit_us = input->shared_us;
    parts = step_mask_make(step, parts);
    const struct step_load load = step_load_planned(step, parts);
    limit_us = step_load_limit_us(step, &load, limit_us); /* once, for both of these */
    step_force_plan(step, parts, limit_us);
    step_draft_plan(step, parts, limit_us);
    for (uint32_t i = 0; i < parts; i++)
        plan_add(step, &step->parts[i]);
    batch_group(&step->batch);
    return parts;
}

/* The floors of classes count the rows that are executed: they may differ from the planned ones by
 * missing pages and by draft tokens. */
static void plan_count(struct step *step, struct scheduler_fair_step *done, uint32_t parts)
{
    memset(done->rows, 0, sizeof(done->rows));
    for (uint32_t i = 0; i < parts; i++) {
        uint32_t client = step->sequences.slots[step->parts[i].sequence].client;
        done->rows[step->fair.clients[client].service_class] +=
            step->parts[i].rows + step->parts[i].forced + step->parts[i].drafts;
    }
    scheduler_fair_tick(&step->fair, step->now_us, done);
}

uint32_t step_plan(struct step *step, bool *has_moved)
{
    struct sequence_table *table = &step->sequences;
    struct scheduler_input input;
    struct scheduler_plan plan;
    step_view(step, &input);
    scheduler_plan(&input, &plan, step->grants);
    *has_moved = plan.rows > 0 || plan.paused > 0 || plan.admitted > 0;
    plan_sequences(step, input.running_count);

    batch_begin(&step->batch, &step->pool, &step->open);
    /* Sequences take all that was found for them before anything is evicted to make room. */
    for (uint32_t i = 0; i < table->order_count; i++) {
        struct sequence *sequence = &table->slots[table->order[i]];
        if (step->grants[i].rows == 0 || sequence->page_count > 0)
            continue;
        step_pause_room(step, step->view_running[i].found_cost);
        step_pause_resume(step, table->order[i]);
    }
    plan_arrivals(step);
    plan_tell_starts(step);
    for (uint32_t i = 0; i < table->order_count; i++)
        step_pause_tell(step, i);
    uint32_t parts = plan_parts(step, &input, plan.is_shared);
    prefix_cache_make_ahead(&step->cache);
    plan_count(step, &plan.done, parts);

    /* Throttled sequences that have lost their pages come last from now on. */
    for (uint32_t i = 0; i < table->count && plan.paused > 0; i++) {
        struct sequence *sequence = &table->slots[i];
        if (sequence->is_running && sequence->is_throttled && sequence->page_count == 0)
            sequence_make_youngest(table, i);
    }
    return parts;
}
