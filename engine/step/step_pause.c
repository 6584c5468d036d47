#include "engine/step/step_pause.h"

#include "engine/step/step_prefix.h"
#include "engine/step/step_tell.h"

/* A stream that has had no rows for this long is told that it is paused. */
static const int64_t idle_told_us = 1000000;

static void pause_tell(struct step *step, uint32_t index)
{
    struct sequence *sequence = &step->sequences.slots[index];
    if (sequence->is_pause_told || sequence->is_throttled || sequence_generated(sequence) == 0)
        return;
    const struct outbox_record record = step_tell_record(step, ENGINE_EVENT_PAUSED, index);
    step_tell(step, &record, NULL, (struct slice){0});
    sequence->is_pause_told = true;
}

/* Whether swapping the sequence's private pages in is predicted to take no longer than to
 * compute them again. */
static bool swap_pays(const struct step *step, const struct sequence *sequence)
{
    if (step->options.preemption == ENGINE_PREEMPTION_RECOMPUTE)
        return false;
    if (step->options.preemption == ENGINE_PREEMPTION_SWAP || !step_cost_is_known(&step->cost))
        return true;
    uint32_t units;
    uint32_t pages = kv_swap_private(&step->swap, sequence->pages, sequence->page_count,
                                     sequence->computed, &units);
    double rows = (double)pages * step->pool.layout.page_tokens;
    rows = rows < sequence->computed ? rows : sequence->computed;
    const struct scheduler_cost *fit = &step->cost.fit;
    double keys = rows * (sequence->computed - rows / 2);
    if (fit->window_share > 0)
        keys = scheduler_cost_keys(fit, sequence->computed - (uint32_t)rows, (uint32_t)rows);
    return (double)kv_swap_cost_us(&step->swap, units) <= rows * fit->row_us + keys * fit->key_us;
}

static void swap_measure(struct step *step, struct metric *bytes, uint64_t units, int64_t us)
{
    if (bytes == NULL)
        return;
    metric_add(bytes, (int64_t)(units * step_unit_bytes(step)));
    metric_observe(step->metrics.swap_seconds, (double)us * 1e-6);
}

static bool swap_out(struct step *step, uint32_t index)
{
    struct sequence *sequence = &step->sequences.slots[index];
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    const struct kv_swap_figures before = step->swap.figures;
    /* Keys that are not packed yet are computed again: fewer than one group of tokens. */
    sequence->computed = kv_pool_tokens_packed(&step->pool, sequence->computed);
    sequence_trim(sequence, &step->pool);
    const struct kv_swap_owner owner = {
        .tenant = ticket->asked.tenant,
        .weight = ticket->asked.weight > 0 ? ticket->asked.weight : 100,
        .service_class = ticket->asked.service_class,
        .computed = sequence->computed,
    };
    if (sequence->computed == 0 || !swap_pays(step, sequence) ||
        !kv_swap_out(&step->swap, index, sequence->pages, &sequence->page_count, &owner))
        return false;
    sequence_drop_pages(sequence, &step->pool); /* kv_swap_out took all of them into the list */
    uint64_t pages = step->swap.figures.pages_out - before.pages_out;
    int64_t us = step->swap.figures.out_us - before.out_us;
    ticket->report.swapped_pages += (uint32_t)pages;
    ticket->report.swap_us += us;
    swap_measure(step, step->metrics.swap_out, step->swap.figures.units_out - before.units_out, us);
    return true;
}

static void pause_count_way(struct step *step, bool is_swapped)
{
    struct step_figures *figures = &step->figures;
    struct metric *metric =
        is_swapped ? step->metrics.preemptions_swap : step->metrics.preemptions_recompute;
    atomic_fetch_add_explicit(is_swapped ? &figures->preemptions_swap
                                         : &figures->preemptions_recompute,
                              1, memory_order_relaxed);
    if (metric != NULL)
        metric_add(metric, 1);
}

void step_pause(struct step *step, uint32_t index, const struct scheduler_grant *grant)
{
    struct sequence *sequence = &step->sequences.slots[index];
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    bool is_swapped = swap_out(step, index);
    if (!is_swapped) {
        /* It resumes where the cache still has the window behind its end. */
        sequence_keep_tail(sequence, &step->pool, sequence->computed);
        sequence_drop_pages(sequence, &step->pool);
    }
    sequence->is_paused = true;
    sequence->paused_since_us = step->now_us;
    sequence->found.is_known = false;
    ticket->report.preemptions++;
    atomic_store_explicit(&ticket->shown_preempted_by, 1 + (uint32_t)grant->for_class,
                          memory_order_relaxed);
    pause_count_way(step, is_swapped);
    step->fair.pauses += grant->why == SCHEDULER_FOR_CLIENT;
    pause_tell(step, index);
}

/* Tokens in the pages of a swap list, whose end may have been dropped. */
static uint32_t swapped_tokens(const struct step *step, uint32_t index)
{
    const struct kv_swap_list *list = kv_swap_list(&step->swap, index);
    uint32_t most = list->page_count * step->pool.layout.page_tokens;
    return list->owner.computed < most ? list->owner.computed : most;
}

void step_pause_view(struct step *step, uint32_t index, struct scheduler_sequence *view)
{
    struct sequence *sequence = &step->sequences.slots[index];
    const struct kv_swap_list *list = kv_swap_list(&step->swap, index);
    if (list->page_count > 0) {
        view->computed = swapped_tokens(step, index);
        view->found_pages = list->page_count;
        view->found_cost = list->host_units;
        view->window_pages = list->page_count - kv_pool_window_page(&step->pool, view->computed);
        view->is_found_shared = true; /* its pages in the pool stay while others hold them too */
        return;
    }
    step_prefix_look_again(step, sequence);
    view->computed = sequence->found.tokens;
    view->found_pages = sequence->found.pages;
    view->found_cost = sequence->found.cost;
    view->window_pages =
        sequence->found.pages - kv_pool_window_page(&step->pool, sequence->found.tokens);
    view->is_found_shared = sequence->found.is_shared;
}

static void pause_count(struct step *step, struct sequence *sequence)
{
    if (!sequence->is_paused)
        return;
    sequence->is_paused = false;
    step->options.tickets->slots[sequence->slot].report.paused_us +=
        step->now_us - sequence->paused_since_us;
}

void step_pause_room(struct step *step, uint32_t units)
{
    uint32_t available = prefix_cache_available(&step->cache);
    if (available < units)
        kv_swap_give_way(&step->swap, units - available);
}

/* False when nothing was swapped out, or when the pages that it needs are not available (the
 * sequence may hold, itself, the pages that were to be given up for it). It is recomputed then. */
static bool swap_in(struct step *step, uint32_t index)
{
    struct sequence *sequence = &step->sequences.slots[index];
    const uint32_t tokens = swapped_tokens(step, index);
    const struct kv_swap_figures before = step->swap.figures;
    if (tokens == 0)
        return false;
    if (!kv_swap_in(&step->swap, index, sequence->pages, &sequence->page_count)) {
        kv_swap_drop(&step->swap, index);
        return false;
    }
    sequence->computed = tokens;
    sequence->inserted = tokens / step->pool.layout.page_tokens;
    sequence->window_page = kv_pool_window_page(&step->pool, tokens);
    int64_t us = step->swap.figures.in_us - before.in_us;
    step->options.tickets->slots[sequence->slot].report.swap_us += us;
    swap_measure(step, step->metrics.swap_in, step->swap.figures.units_in - before.units_in, us);
    return true;
}

void step_pause_resume(struct step *step, uint32_t index)
{
    struct sequence *sequence = &step->sequences.slots[index];
    ASSERT(sequence->page_count == 0);
    if (!swap_in(step, index))
        step_prefix_take(step, sequence);
    pause_count(step, sequence);
    sequence->quantum_left = SCHEDULER_QUANTUM_STEPS;
    sequence->arriving_steps = 0;
    sequence->idle_since_us = 0;
}

void step_pause_tell(struct step *step, uint32_t place)
{
    uint32_t index = step->sequences.order[place];
    struct sequence *sequence = &step->sequences.slots[index];
    if (step->grants[place].rows > 0) {
        sequence->idle_since_us = 0;
        sequence->row_turn = step->turn;
        if (sequence->quantum_left > 0)
            sequence->quantum_left--;
    } else if (sequence->idle_since_us == 0) {
        sequence->idle_since_us = step->now_us;
    } else if (step->now_us - sequence->idle_since_us >= idle_told_us) {
        pause_tell(step, index);
    }
}

void step_pause_end(struct step *step, uint32_t index)
{
    pause_count(step, &step->sequences.slots[index]);
    kv_swap_drop(&step->swap, index);
}
