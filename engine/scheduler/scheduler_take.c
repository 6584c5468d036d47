#include "engine/scheduler/scheduler_take.h"

#include "config/base/status.h"

uint32_t scheduler_take_missing(const struct scheduler_state *state, uint32_t index, uint32_t rows)
{
    const struct scheduler_sequence *sequence = scheduler_at(state, index);
    uint32_t page_tokens = state->input->page_tokens;
    uint64_t tokens = (uint64_t)sequence->computed + rows;
    uint32_t wanted = (uint32_t)((tokens + page_tokens - 1) / page_tokens);
    uint32_t held = scheduler_pages(sequence);
    return scheduler_found_cost(sequence) +
           (wanted > held ? wanted - held : 0) * scheduler_page_units(state);
}

uint32_t scheduler_take_missing_whole(const struct scheduler_state *state, uint32_t index)
{
    const struct scheduler_input *input = state->input;
    const struct scheduler_sequence *sequence = scheduler_at(state, index);
    const uint32_t wanted = sequence->tokens / input->page_tokens + 1; /* pages */
    const uint32_t held = scheduler_pages(sequence);
    const uint32_t windows = wanted < input->window_most ? wanted : input->window_most;
    const uint32_t more = windows > sequence->window_pages ? windows - sequence->window_pages : 0;
    const uint32_t pages = wanted > held ? wanted - held : 0;
    return scheduler_found_cost(sequence) + pages +
           (more < pages ? more : pages) * input->window_units;
}

/* --- what a client may have --- */

double scheduler_take_charge(const struct scheduler_state *state, uint32_t index, uint32_t rows)
{
    const struct scheduler_sequence *sequence = scheduler_at(state, index);
    uint32_t end = sequence->computed + rows;
    uint32_t from =
        sequence->charge_from > sequence->computed ? sequence->charge_from : sequence->computed;
    double tokens = end > from ? (end - from) * SCHEDULER_PRICE_PROMPT : 0;
    if (end == sequence->tokens)
        tokens += scheduler_fair_token(sequence->draw_work);
    if (index >= state->input->running_count)
        tokens += sequence->computed * SCHEDULER_PRICE_CACHED;
    return tokens * 100 / scheduler_client_of(state, index)->weight;
}

bool scheduler_take_is_spent(const struct scheduler_state *state, uint32_t index)
{
    if (!scheduler_over(state, index))
        return false;
    const struct scheduler_sequence *sequence = scheduler_at(state, index);
    const struct scheduler_client *client = scheduler_client_of(state, index);
    uint32_t rows = sequence->tokens - sequence->computed;
    rows = rows < state->input->rows_max ? rows : state->input->rows_max;
    return client->served + scheduler_take_charge(state, index, rows) > client->limit;
}

/* The part of all units that a client of the class may claim, by its weight: with one more client
 * the part is smaller. */
static uint64_t take_share(const struct scheduler_state *state,
                           const struct scheduler_client *client)
{
    return (uint64_t)state->input->units_total * client->weight /
           state->weights[client->service_class];
}

bool scheduler_take_is_within(const struct scheduler_state *state, uint32_t index)
{
    const struct scheduler_client *client = scheduler_client_of(state, index);
    return client->units + scheduler_take_missing_whole(state, index) <= take_share(state, client);
}

bool scheduler_take_has_claim(const struct scheduler_state *state, uint32_t index)
{
    if (state->is_plain || state->input->is_preemption_off || scheduler_over(state, index))
        return false;
    bool is_only = scheduler_client_of(state, index)->holding == 0;
    return (is_only || scheduler_at(state, index)->pages > 0) &&
           scheduler_take_is_within(state, index);
}

/* Whether a client gives up a sequence to one that has a claim: it keeps its own part. */
static bool take_is_claimed(const struct scheduler_state *state, uint32_t index, uint32_t victim)
{
    const struct scheduler_client *client = scheduler_client_of(state, victim);
    const struct scheduler_sequence *other = &state->input->running[victim];
    return scheduler_client_of(state, index) != client &&
           state->first_holder[scheduler_class(state, victim)] != victim &&
           client->units >= take_share(state, client) + scheduler_units(state, other) &&
           scheduler_take_has_claim(state, index);
}

/* --- victims --- */

/* Whether a victim is protected by its class's floor: more urgent classes may not take it. Its
 * share is at least an eighth of all pages, or a sequence longer than the floor's share would begin
 * again and again. When sequence `index` does not fit beside that share of each lower class, the
 * protection lasts for a quantum: one victim after the other would keep it out for ever. */
static bool take_is_exempt(const struct scheduler_state *state, uint32_t index, uint32_t victim)
{
    const struct scheduler_sequence *other = &state->input->running[victim];
    uint32_t one = state->input->units_total / SCHEDULER_FLOOR_ONE;
    uint32_t most = one > state->floor_units ? one : state->floor_units;
    if (state->first_holder[scheduler_class(state, victim)] != victim ||
        scheduler_units(state, other) > most)
        return false;
    uint64_t kept = (uint64_t)(SERVICE_CLASS_COUNT - 1) * most;
    uint64_t whole = (uint64_t)scheduler_units(state, scheduler_at(state, index)) +
                     scheduler_take_missing_whole(state, index);
    return other->is_resumed_lately || whole + kept <= state->input->units_total;
}

/* Whether running sequence `victim` has pages that sequence `index` may take. */
static bool take_may(const struct scheduler_state *state, uint32_t index, uint32_t victim)
{
    const struct scheduler_sequence *other = &state->input->running[victim];
    if (victim == index || !scheduler_holds(state, victim) || state->grants[victim].rows > 0)
        return false;
    enum service_class mine = scheduler_class(state, index);
    enum service_class theirs = scheduler_class(state, victim);
    if (other->is_throttled && (theirs >= mine || state->is_relaxed))
        return true;
    if (theirs != mine) {
        bool may = state->is_relaxed ||
                   (!state->input->is_preemption_off && !take_is_exempt(state, index, victim));
        return theirs > mine && may;
    }
    bool is_first = state->first[mine] == index || state->is_relaxed;
    bool is_over = scheduler_over(state, index);
    if (other->is_resumed_lately && !state->is_relaxed && !state->is_plain &&
        (is_over || !scheduler_take_is_spent(state, victim)))
        return false;
    if (!state->is_plain && take_is_claimed(state, index, victim))
        return true;
    if (is_over != scheduler_over(state, victim))
        return !is_over && (state->is_relaxed || !state->input->is_preemption_off);
    /* A preempted sequence takes nothing from younger ones, or they would take turns for ever. */
    return victim > index && (is_first || scheduler_at(state, index)->pages > 0);
}

static double take_had(const struct scheduler_state *state, uint32_t index)
{
    if (state->is_plain)
        return 0;
    const struct scheduler_client *client = scheduler_client_of(state, index);
    return client->served + client->planned;
}

/* Whether a is to be taken before b. */
static bool take_is_before(const struct scheduler_state *state, uint32_t a, uint32_t b)
{
    const struct scheduler_sequence *one = &state->input->running[a];
    const struct scheduler_sequence *other = &state->input->running[b];
    enum service_class class_a = scheduler_class(state, a);
    enum service_class class_b = scheduler_class(state, b);
    if (class_a != class_b)
        return class_a > class_b;
    if (one->is_throttled != other->is_throttled)
        return one->is_throttled;
    if (one->is_throttled)
        return a > b;
    if (scheduler_over(state, a) != scheduler_over(state, b))
        return scheduler_over(state, a);
    if (one->is_resumed_lately != other->is_resumed_lately)
        return other->is_resumed_lately;
    uint32_t first = state->first_holder[class_a];
    if ((a == first) != (b == first))
        return b == first;
    double had_a = take_had(state, a);
    double had_b = take_had(state, b);
    if (had_a > had_b || had_a < had_b)
        return had_a > had_b;
    return one->computed != other->computed ? one->computed < other->computed : a > b;
}

static uint32_t take_victim(const struct scheduler_state *state, uint32_t index)
{
    uint32_t best = SCHEDULER_NONE;
    for (uint32_t i = 0; i < state->input->running_count; i++)
        if (take_may(state, index, i) && (best == SCHEDULER_NONE || take_is_before(state, i, best)))
            best = i;
    return best;
}

static void take_pause(struct scheduler_state *state, uint32_t index, uint32_t victim)
{
    enum service_class mine = scheduler_class(state, index);
    bool is_for_class = mine < scheduler_class(state, victim);
    bool is_for_client = !state->is_plain && !is_for_class && !scheduler_over(state, index) &&
                         (scheduler_over(state, victim) || take_is_claimed(state, index, victim)) &&
                         !state->input->running[victim].is_throttled;
    state->grants[victim].act = SCHEDULER_PAUSE;
    state->grants[victim].for_class = mine;
    state->grants[victim].why = is_for_class    ? SCHEDULER_FOR_CLASS
                                : is_for_client ? SCHEDULER_FOR_CLIENT
                                                : SCHEDULER_FOR_GROWTH;
    /* No sequence is admitted or resumed with the pages left over from it. */
    state->is_blocked = state->is_blocked ||
                        (!state->is_plain && state->grants[victim].why == SCHEDULER_FOR_GROWTH &&
                         !state->input->running[victim].is_throttled);
    const struct scheduler_sequence *gone = &state->input->running[victim];
    state->units_available += gone->units_back;
    /* Its pages count for its class no more: they are the taker's. (In a window or static batch
     * there are no classes, and they were not counted.) */
    if (!state->is_plain) {
        state->plan->done.units[gone->service_class] -= scheduler_units(state, gone);
        scheduler_client_of(state, victim)->units -= scheduler_units(state, gone);
    }
    state->plan->paused++;
}

uint64_t scheduler_take_reachable(const struct scheduler_state *state, uint32_t index)
{
    uint64_t units = (uint64_t)state->units_available + state->units_protected;
    for (uint32_t i = 0; i < state->input->running_count; i++)
        if (take_may(state, index, i))
            units += state->input->running[i].units_back;
    return units;
}

bool scheduler_take(struct scheduler_state *state, uint32_t index, uint32_t units)
{
    if (units <= state->units_available)
        return true;
    if (units > scheduler_take_reachable(state, index))
        return false;
    while (units > state->units_available) {
        uint32_t victim = take_victim(state, index);
        if (victim == SCHEDULER_NONE)
            break;
        take_pause(state, index, victim);
    }
    if (units > state->units_available) {
        uint32_t more = units - state->units_available;
        ASSERT(more <= state->units_protected);
        state->units_protected -= more;
        state->units_available += more;
    }
    return true;
}

bool scheduler_take_is_left(const struct scheduler_state *state, uint32_t index, uint32_t rows)
{
    enum service_class mine = scheduler_class(state, index);
    uint64_t wanted = scheduler_take_missing(state, index, rows);
    if (wanted == 0 || state->plan->done.units[mine] + wanted <= state->floor_units)
        return true;
    for (uint32_t i = 0; i < state->input->running_count; i++) {
        const struct scheduler_sequence *other = &state->input->running[i];
        if (scheduler_class(state, i) >= mine || other->is_throttled || !scheduler_holds(state, i))
            continue;
        uint32_t left = other->tokens - other->computed;
        left = left < state->rows_left ? left : state->rows_left;
        wanted += scheduler_take_missing(state, i, left);
    }
    return wanted <= scheduler_take_reachable(state, index);
}

bool scheduler_take_any(struct scheduler_state *state, uint32_t index)
{
    uint32_t victim = take_victim(state, index);
    if (victim == SCHEDULER_NONE)
        return false;
    take_pause(state, index, victim);
    return true;
}

/* --- room --- */

/* Units that sequence `i` will still need after what this step gives it, and a page of growth. */
static uint64_t room_promised(const struct scheduler_state *state, uint32_t i)
{
    const uint32_t rows = state->grants[i].rows;
    const uint64_t whole = scheduler_take_missing_whole(state, i);
    const uint64_t given = rows > 0 ? scheduler_take_missing(state, i, rows) : 0;
    return scheduler_page_units(state) + (whole > given ? whole - given : 0);
}

/* Units kept for other classes: for more urgent ones as many as they have lately held at once, for
 * the floors of lower ones at most what sequence `index` does not need itself. */
static uint64_t room_of_others(const struct scheduler_state *state, uint32_t index)
{
    const struct scheduler_fair_step *done = &state->plan->done;
    enum service_class mine = scheduler_class(state, index);
    uint64_t peaks = 0;
    uint64_t floors = 0;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT && !state->is_plain; c++) {
        uint32_t held = done->units[c];
        uint32_t peak = scheduler_fair_peak(state->fair, (enum service_class)c);
        if (c < mine)
            peaks += peak > held ? peak - held : 0;
        else if (c > mine && done->has_work[c])
            floors += state->floor_units > held ? state->floor_units - held : 0;
    }
    uint64_t whole = scheduler_take_missing_whole(state, index);
    uint64_t left = state->input->units_total > whole ? state->input->units_total - whole : 0;
    return peaks + (floors < left ? floors : left);
}

uint64_t scheduler_take_room(const struct scheduler_state *state, uint32_t index)
{
    const struct scheduler_input *input = state->input;
    uint64_t reachable = scheduler_take_reachable(state, index);
    if (state->is_relaxed)
        return reachable;
    uint64_t kept = state->is_floor ? 0 : room_of_others(state, index);
    for (uint32_t i = 0; i < input->running_count + input->waiting_count; i++) {
        bool is_on = i < input->running_count
                         ? !input->running[i].is_throttled &&
                               (state->grants[i].rows > 0 || scheduler_holds(state, i))
                         : state->grants[i].act == SCHEDULER_ADMIT;
        if (is_on && i != index && (i >= input->running_count || !take_may(state, index, i)))
            kept += room_promised(state, i);
    }
    return reachable > kept ? reachable - kept : 0;
}
