#include "engine/step/step_view.h"

#include <string.h>

#include "engine/step/step_charge.h"
#include "engine/step/step_pause.h"
#include "engine/step/step_prefix.h"

/* After the last realtime request the next is expected for this long. */
static const int64_t urgent_for_us = 60 * 1000000;

/* --- waiting requests --- */

static void waiting_show(struct step *step, uint32_t slot, enum engine_request_state state)
{
    struct ticket *ticket = &step->options.tickets->slots[slot];
    atomic_store_explicit(&ticket->shown_state, state, memory_order_relaxed);
    atomic_store_explicit(&ticket->shown_deficit, scheduler_fair_sign(&step->fair, ticket->client),
                          memory_order_relaxed);
}

static void waiting_add(struct step *step, uint32_t slot)
{
    const struct ticket *ticket = &step->options.tickets->slots[slot];
    step->candidates[step->candidate_count] = slot;
    step->view_waiting[step->candidate_count++] = (struct scheduler_sequence){
        .tokens = ticket->prompt_count,
        .computed = ticket->found.tokens,
        .found_pages = ticket->found.pages,
        .found_cost = ticket->found.cost,
        .window_pages =
            ticket->found.pages - kv_pool_window_page(&step->pool, ticket->found.tokens),
        .is_found_shared = ticket->found.is_shared,
        .logits_from = ticket_wanted_from(ticket),
        .charge_from = ticket->found.tokens,
        .client = ticket->client,
        .draw_work = step_charge_work(step, slot, 0),
        .passed = ticket->passed,
        .service_class = ticket->asked.service_class,
    };
}

/* Looks at a request, which becomes a head if it does not follow another; false when its lookup is
 * missing and this step may look up no more. */
static bool waiting_look(struct step *step, uint32_t slot)
{
    const struct ticket *ticket = &step->options.tickets->slots[slot];
    enum step_prefix_wait wait = step_prefix_look(step, slot);
    if (wait == STEP_PREFIX_UNKNOWN)
        return false;
    enum engine_request_state state =
        ticket->choices_admitted > 0 ? ENGINE_REQUEST_PREFILL : ENGINE_REQUEST_WAITING;
    waiting_show(step, slot, wait == STEP_PREFIX_FOLLOWING ? ENGINE_REQUEST_FOLLOWING : state);
    if (wait == STEP_PREFIX_READY)
        step->heads[step->head_count++] = slot;
    return true;
}

/* First come, first served, in the modes that exist for comparison. */
static void waiting_in_line(struct step *step)
{
    const struct ticket *tickets = step->options.tickets->slots;
    for (uint32_t slot = step->queue.all.first;
         slot != TICKET_NONE && step->head_count < step->places && waiting_look(step, slot);)
        slot = tickets[slot].in_all.after;
}

/* Moves clients[i] down a heap whose root has received the most service. */
static void clients_sift(const struct step *step, uint32_t *clients, uint32_t count, uint32_t i)
{
    const struct scheduler_client *accounts = step->fair.clients;
    uint32_t client = clients[i];
    for (uint32_t child; (child = 2 * i + 1) < count; i = child) {
        if (child + 1 < count &&
            accounts[clients[child + 1]].served > accounts[clients[child]].served)
            child++;
        if (accounts[clients[child]].served <= accounts[client].served)
            break;
        clients[i] = clients[child];
    }
    clients[i] = client;
}

/* The clients of a class with the least service, in ascending order; returns how many. */
static uint32_t clients_choose(const struct step *step, uint32_t class,
                               uint32_t clients[STEP_VIEW_CLIENTS])
{
    const struct scheduler_client *accounts = step->fair.clients;
    const uint32_t *active = step->queue.active[class];
    uint32_t all = step->queue.active_count[class];
    uint32_t count = all < STEP_VIEW_CLIENTS ? all : STEP_VIEW_CLIENTS;
    for (uint32_t i = 0; i < count; i++)
        clients[i] = active[i];
    for (uint32_t i = count / 2; i-- > 0;)
        clients_sift(step, clients, count, i);
    for (uint32_t i = count; i < all; i++) {
        if (accounts[active[i]].served >= accounts[clients[0]].served)
            continue;
        clients[0] = active[i];
        clients_sift(step, clients, count, 0);
    }
    for (uint32_t left = count; left-- > 1;) { /* moves the one with the most service to the end */
        uint32_t richest = clients[0];
        clients[0] = clients[left];
        clients[left] = richest;
        clients_sift(step, clients, left, 0);
    }
    return count;
}

/* Adds the first `most` requests of a client that do not follow another; stops at one that this
 * step may not look up. */
static void clients_heads(struct step *step, uint32_t client, uint32_t most)
{
    const struct ticket *tickets = step->options.tickets->slots;
    uint32_t slot = step->queue.clients[client].first;
    uint32_t before = step->head_count;
    for (uint32_t seen = 0; slot != TICKET_NONE && seen < STEP_VIEW_DEPTH; seen++) {
        if (step->head_count - before == most)
            break;
        if (!waiting_look(step, slot))
            return;
        slot = tickets[slot].in_client.after;
    }
}

static void waiting_by_class(struct step *step)
{
    for (uint32_t class = 0; class < SERVICE_CLASS_COUNT; class ++) {
        uint32_t clients[STEP_VIEW_CLIENTS];
        uint32_t count = clients_choose(step, class, clients);
        step->is_find_first = true;
        for (uint32_t i = 0; i < count; i++)
            clients_heads(step, clients[i], STEP_VIEW_CLIENTS / count);
    }
}

/* Sorts by arrival. The heads are runs of clients, each sorted, so few have to move. */
static void heads_sort(struct step *step)
{
    const struct ticket *tickets = step->options.tickets->slots;
    for (uint32_t i = 1; i < step->head_count; i++) {
        uint32_t slot = step->heads[i];
        uint32_t place = i;
        for (; place > 0 && tickets[step->heads[place - 1]].arrival > tickets[slot].arrival;
             place--)
            step->heads[place] = step->heads[place - 1];
        step->heads[place] = slot;
    }
}

static void view_waiting(struct step *step)
{
    step->head_count = 0;
    step->candidate_count = 0;
    if (step->options.mode == SCHEDULER_CONTINUOUS) {
        waiting_by_class(step);
        heads_sort(step);
    } else {
        waiting_in_line(step);
    }
    for (uint32_t i = 0; i < step->head_count; i++) {
        const struct ticket *ticket = &step->options.tickets->slots[step->heads[i]];
        uint32_t choices = ticket->asked.choices - ticket->choices_admitted;
        if (step_prefix_follows_itself(step, ticket))
            choices = 1;
        while (choices-- > 0 && step->candidate_count < step->candidates_max)
            waiting_add(step, step->heads[i]);
    }
}

/* --- running sequences --- */

/* Whether nobody needs the window units of a page if a sequence and those in needs_gone do not. */
static bool back_has_window(const struct step *step, page_id page)
{
    const struct kv_pool *pool = &step->pool;
    const bool is_kept = kv_pool_is_pinned(pool, page) && kv_pool_is_tail(pool, page);
    return pool->windows != NULL && !is_kept &&
           kv_pool_needs(pool, page) - step->needs_gone[page] == 1;
}

/* Units that become available when a sequence and the references in pages_gone let go. The cache's
 * own reference does not hold a page. */
static uint32_t back_count(struct step *step, const struct sequence *sequence)
{
    uint32_t back = 0;
    for (uint32_t i = 0; i < sequence->page_count; i++) {
        page_id page = sequence->pages[i];
        const bool is_in_window = i >= sequence->window_page;
        uint32_t cached = kv_pool_is_cached(&step->pool, page) ? 1 : 0;
        back += step->pool.references[page] - cached - step->pages_gone[page] == 1;
        if (is_in_window && back_has_window(step, page))
            back += step->pool.layout.window_units;
        if (sequence->is_throttled) {
            step->pages_gone[page]++;
            step->needs_gone[page] += is_in_window;
        }
    }
    return back;
}

/* Counts in the order in which the scheduler takes pages: first throttled sequences, the youngest
 * first, so that a page that only they share counts with the last of them. A page that several
 * other sequences share counts for none of them: the step after their preemption sees it as
 * available. References of swapped-out sequences give way too (step_pause_room). */
static void view_pages_back(struct step *step)
{
    const struct sequence_table *table = &step->sequences;
    kv_swap_count_holders(&step->swap, step->pages_gone, step->needs_gone);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = table->order_count; i-- > 0;) {
            const struct sequence *sequence = &table->slots[table->order[i]];
            if (sequence->is_throttled == (turn == 0))
                step->view_running[i].units_back = back_count(step, sequence);
        }
    }
    memset(step->pages_gone, 0, step->pool.unit_count * sizeof(*step->pages_gone));
    memset(step->needs_gone, 0, step->pool.unit_count * sizeof(*step->needs_gone));
}

static void view_running(struct step *step)
{
    struct sequence_table *table = &step->sequences;
    for (uint32_t i = 0; i < table->order_count; i++) {
        struct sequence *sequence = &table->slots[table->order[i]];
        struct scheduler_sequence *view = &step->view_running[i];
        enum service_class own = step->options.tickets->slots[sequence->slot].asked.service_class;
        *view = (struct scheduler_sequence){
            .tokens = sequence->token_count,
            .computed = sequence->computed,
            .pages = sequence->page_count,
            .window_pages = sequence->page_count - sequence->window_page,
            .logits_from = sequence_logits_from(sequence),
            .charge_from = sequence->reached < sequence->prompt_count ? sequence->reached
                                                                      : sequence->token_count,
            .client = sequence->client,
            .draw_work = step_charge_work(step, sequence->slot, sequence_generated(sequence)),
            .rested = (uint32_t)(step->turn - sequence->row_turn),
            .service_class = sequence->followed_class < own ? sequence->followed_class : own,
            .is_throttled = sequence->is_throttled,
            .is_resumed_lately = sequence->quantum_left > 0,
        };
        if (sequence->page_count == 0)
            step_pause_view(step, table->order[i], view);
    }
}

/* Most pages of a sequence that have window units at once: those behind its next row, and those of
 * a chunk as far as the pool has room for it beside one full context and the pins. */
static uint32_t view_window_most(const struct step *step)
{
    const struct kv_pool *pool = &step->pool;
    const uint32_t least = kv_pool_window_pages(pool) + 1;
    const uint32_t most = least + kv_pool_pages_for(pool, step->options.rows_max);
    const uint64_t kept = (uint64_t)kv_pool_units_pinned(pool) + step->cache.options.exchange +
                          kv_pool_pages_for(pool, step->options.context);
    if (pool->layout.window_units == 0)
        return 0;
    const uint64_t room =
        pool->unit_count > kept ? (pool->unit_count - kept) / pool->layout.window_units : 0;
    return room < least ? least : room < most ? (uint32_t)room : most;
}

/* Whether units may have to be taken from sequences, for what is shown and what is kept
 * for other classes. */
static bool view_is_short(const struct step *step, uint32_t available, uint32_t window_most)
{
    const struct kv_pool *pool = &step->pool;
    const uint32_t page_units = kv_pool_page_units(pool);
    uint32_t running = step->sequences.order_count;
    uint64_t kept = 0;
    for (uint32_t class = 0; class < SERVICE_CLASS_COUNT; class ++)
        kept += scheduler_fair_peak(&step->fair, (enum service_class) class) +
                (uint64_t)step->pool.unit_count * step->fair.options.floor_percent / 100;
    uint64_t most = (uint64_t)kv_pool_pages_for(pool, step->options.rows_max) * page_units;
    for (uint32_t i = 0; i < running + step->candidate_count; i++) {
        const struct scheduler_sequence *shown =
            i < running ? &step->view_running[i] : &step->view_waiting[i - running];
        const uint32_t pages = kv_pool_pages_for(pool, shown->tokens + 1);
        const uint32_t windows = pages < window_most ? pages : window_most;
        uint64_t whole = shown->pages > 0 ? 0
                                          : pages + (uint64_t)shown->found_cost +
                                                (uint64_t)windows * (page_units - 1);
        if (shown->is_throttled && shown->pages > 0)
            return true;
        most = whole > most ? whole : most;
    }
    return available < most + kept + ((uint64_t)running + step->candidate_count) * page_units;
}

void step_view(struct step *step, struct scheduler_input *input)
{
    uint32_t available = prefix_cache_available(&step->cache);
    step_prefix_begin(step);
    view_waiting(step); /* first: it sets followed_class, which view_running reads */
    view_running(step);
    const uint32_t window_most = view_window_most(step);
    bool is_short = view_is_short(step, available, window_most);
    if (is_short)
        view_pages_back(step);
    if (step->queue.by_class[SERVICE_CLASS_REALTIME] > 0)
        step->urgent_until_us = step->now_us + urgent_for_us;
    *input = (struct scheduler_input){
        .fair = &step->fair,
        .running = step->view_running,
        .running_count = step->sequences.order_count,
        .waiting = step->view_waiting,
        .waiting_count = step->candidate_count,
        .sequences_max = step->options.sequences_max,
        .places = step->sequences.order_count + sequence_free_count(&step->sequences),
        .units_available = available,
        .units_protected = is_short ? kv_swap_protected(&step->swap) : 0,
        .units_total = step->pool.unit_count - step->cache.options.exchange,
        .page_tokens = step->pool.layout.page_tokens,
        .window_units = step->pool.layout.window_units,
        .window_most = window_most,
        .rows_max = step->options.rows_max,
        .logit_rows_max = step->options.logit_rows_max,
        .mode = step->options.mode,
        .is_preemption_off = step->options.preemption == ENGINE_PREEMPTION_OFF,
    };
    if (!step_cost_is_known(&step->cost))
        return;
    input->cost = step->cost.bound;
    input->budget_us = step->options.step_ms * 1000.0;
    input->shared_us = step->options.shared_us;
    if (step->now_us < step->urgent_until_us)
        input->urgent_us = step->options.urgent_step_ms * 1000.0;
}
