#include "engine/step_plan.h"

#include "engine/step_end.h"
#include "engine/step_prefix.h"
#include "engine/step_tell.h"

/* --- the view --- */

/* How many sequences may be admitted. */
static uint32_t view_places(struct step *step)
{
    struct sequence_table *table = &step->sequences;
    if (step->queue.all.count == 0)
        return 0;
    uint32_t computing = table->order_count - sequence_throttled_count(table);
    uint32_t most = step->options.sequences_max;
    uint32_t wanted = most > computing ? most - computing : 0;
    uint32_t free_count = sequence_free_count(table);
    return wanted < free_count ? wanted : free_count;
}

/* Pages of a sequence that can be had once it lets go, and those in pages_gone: the cache's own
 * reference gives way. */
static uint32_t back_count(struct step *step, const struct sequence *sequence)
{
    uint32_t back = 0;
    for (uint32_t i = 0; i < sequence->page_count; i++) {
        page_id page = sequence->pages[i];
        uint32_t cached = kv_pool_is_cached(&step->pool, page) ? 1 : 0;
        back += step->pool.references[page] - cached - step->pages_gone[page] == 1;
        if (sequence->is_throttled)
            step->pages_gone[page]++;
    }
    return back;
}

/* In the order in which the planner takes them: the throttled first, the youngest of them first, so
 * that what only they share is counted with the last of them. Of others, what they share with each
 * other counts for none: a step that has dropped them sees what is there. */
static void view_pages_back(struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = table->order_count; i-- > 0;) {
            const struct sequence *sequence = &table->slots[table->order[i]];
            if (sequence->is_throttled == (turn == 0))
                step->view_running[i].pages_back = back_count(step, sequence);
        }
    }
    for (uint32_t i = 0; i < table->order_count; i++) {
        const struct sequence *sequence = &table->slots[table->order[i]];
        for (uint32_t p = 0; p < sequence->page_count; p++)
            step->pages_gone[sequence->pages[p]] = 0;
    }
}

static void view_running(struct step *step, bool is_short)
{
    struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        struct sequence *sequence = &table->slots[table->order[i]];
        bool is_paused = sequence->page_count == 0;
        if (is_paused)
            step_prefix_look_again(step, sequence);
        step->view_running[i] = (struct scheduler_sequence){
            .tokens = sequence->token_count,
            .computed = is_paused ? sequence->found.tokens : sequence->computed,
            .pages = sequence->page_count,
            .found_pages = is_paused ? sequence->found.pages : 0,
            .found_cost = is_paused ? sequence->found.cost : 0,
            .logits_from = sequence_logits_from(sequence),
            .is_throttled = sequence->is_throttled,
        };
        is_short = is_short || sequence->is_throttled;
    }
    if (is_short)
        view_pages_back(step);
}

/* Candidates in order of arrival, those left out who wait for another's prompt. */
static void view_waiting(struct step *step, uint32_t places)
{
    step->candidate_count = 0;
    for (uint32_t slot = step->queue.all.first, after;
         slot != TICKET_NONE && step->candidate_count < places; slot = after) {
        after = step->options.tickets->slots[slot].in_all.after;
        struct ticket *ticket = &step->options.tickets->slots[slot];
        enum step_prefix_wait wait = step_prefix_look(step, slot);
        if (wait == STEP_PREFIX_UNKNOWN)
            return;
        bool is_following = wait == STEP_PREFIX_FOLLOWING;
        atomic_store_explicit(&ticket->shown_state,
                              is_following               ? ENGINE_REQUEST_FOLLOWING
                              : ticket->choices_admitted ? ENGINE_REQUEST_PREFILL
                                                         : ENGINE_REQUEST_WAITING,
                              memory_order_relaxed);
        uint32_t choices = ticket->asked.choices - ticket->choices_admitted;
        if (is_following)
            choices = 0;
        else if (step_prefix_follows_itself(step, ticket))
            choices = 1;
        for (uint32_t c = 0; c < choices && step->candidate_count < places; c++) {
            step->candidates[step->candidate_count] = slot;
            step->view_waiting[step->candidate_count++] = (struct scheduler_sequence){
                .tokens = ticket->prompt_count,
                .computed = ticket->found.tokens,
                .found_pages = ticket->found.pages,
                .found_cost = ticket->found.cost,
                .logits_from = ticket->scores != NULL ? 0 : ticket->prompt_count - 1,
            };
        }
    }
}

static void view_make(struct step *step, struct scheduler_input *input)
{
    uint32_t places = view_places(step);
    uint32_t available = prefix_cache_available(&step->cache);
    /* The most that this step can ask for without anybody being dropped. */
    uint64_t wanted = (uint64_t)step->sequences.order_count + places +
                      kv_pool_pages_for(&step->pool, step->options.rows_max);
    step_prefix_begin(step);
    view_running(step, available < wanted);
    view_waiting(step, places);
    *input = (struct scheduler_input){
        .running = step->view_running,
        .running_count = step->sequences.order_count,
        .waiting = step->view_waiting,
        .waiting_count = step->candidate_count,
        .sequences_max = step->options.sequences_max,
        .places = step->places,
        .pages_available = available,
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

/* --- what was planned --- */

static void plan_start(struct step *step, struct ticket *ticket)
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
}

/* Behind what was found for them: a start says how much that was. */
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

/* A candidate becomes a running sequence, the youngest; false when it is refused. */
static bool plan_admit(struct step *step, uint32_t slot)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    if (step_prefix_check_pin(step, ticket) != STATUS_OK) {
        step_end_refuse(step, slot);
        return false;
    }
    uint32_t choice = ticket->choices_admitted++;
    uint32_t index = sequence_acquire(&step->sequences, ticket, slot, choice);
    ASSERT(index != SEQUENCE_NONE);
    if (choice == 0)
        plan_start(step, ticket);
    if (ticket->choices_admitted == ticket->asked.choices)
        step_queue_leave(&step->queue, slot);
    return true;
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

/* Drops and admissions. The grants of those admitted move up behind those of the running ones, with
 * their view, so that both go by place in the order. */
static void plan_sequences(struct step *step, uint32_t running)
{
    struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < running; i++)
        if (step->grants[i].act == SCHEDULER_PAUSE)
            plan_drop(step, table->order[i]);
    for (uint32_t i = 0; i < step->candidate_count; i++) {
        struct scheduler_grant grant = step->grants[running + i];
        if (grant.act != SCHEDULER_ADMIT || !plan_admit(step, step->candidates[i]))
            continue;
        uint32_t place = table->order_count - 1;
        step->grants[place] = grant;
        step->view_running[place] = step->view_waiting[i];
    }
}

/* Adds rows of a sequence as planned. Where less was found or is left than the plan was told, the
 * rows are fewer, or none until the next step. */
static uint32_t plan_add_rows(struct step *step, uint32_t place, uint32_t part)
{
    uint32_t index = step->sequences.order[place];
    struct sequence *sequence = &step->sequences.slots[index];
    uint32_t rows = step->grants[place].rows;
    uint32_t end = step->view_running[place].computed + rows;
    if (end <= sequence->computed)
        return part;
    if (rows > end - sequence->computed)
        rows = end - sequence->computed;
    uint32_t wanted = kv_pool_pages_for(&step->pool, sequence->computed + rows);
    uint32_t missing = wanted > sequence->page_count ? wanted - sequence->page_count : 0;
    if (!prefix_cache_make_room(&step->cache, missing)) {
        uint32_t room = (sequence->page_count + step->pool.free_count) * KV_POOL_PAGE_TOKENS;
        if (room <= sequence->computed)
            return part;
        rows = room - sequence->computed < rows ? room - sequence->computed : rows;
    }
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
    return part + 1;
}

uint32_t step_plan(struct step *step, bool *has_moved)
{
    struct sequence_table *table = &step->sequences;
    struct scheduler_input input;
    struct scheduler_plan plan;
    view_make(step, &input);
    scheduler_plan(&input, &plan, step->grants);
    *has_moved = plan.rows > 0 || plan.paused > 0 || plan.admitted > 0;
    plan_sequences(step, input.running_count);

    batch_begin(&step->batch, &step->pool);
    /* All that was found is taken before anything is evicted to make room. */
    for (uint32_t i = 0; i < table->order_count; i++) {
        struct sequence *sequence = &table->slots[table->order[i]];
        if (step->grants[i].rows > 0 && sequence->page_count == 0)
            step_prefix_take(step, sequence);
    }
    plan_tell_starts(step);
    uint32_t parts = 0;
    for (uint32_t i = 0; i < table->order_count; i++)
        if (step->grants[i].rows > 0)
            parts = plan_add_rows(step, i, parts);
    batch_group(&step->batch);

    for (uint32_t i = 0; i < table->count && plan.paused > 0; i++) {
        struct sequence *sequence = &table->slots[i];
        if (sequence->is_running && sequence->is_throttled && sequence->page_count == 0)
            sequence_make_youngest(table, i);
    }
    return parts;
}
