#include "engine/scheduler/scheduler_turn.h"

#include <math.h>

#include "config/base/status.h"

/* --- clients of the plan --- */

/* One class has at most half of the slots, and some stay for each other class that has fewer. A
 * client with throttled sequences gets a slot only while it has fewer of them than slots are left
 * to its class, so they never take more than half of these. */
bool scheduler_turn_has_place(const struct scheduler_state *state, uint32_t index)
{
    uint32_t places = state->input->places;
    const struct scheduler_client *client = scheduler_client_of(state, index);
    enum service_class class = client->service_class;
    uint32_t kept = places / 8 > 0 || places < 4 ? places / 8 : 1;
    uint32_t most = (places + 1) / 2;
    uint32_t left = places;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        uint32_t held = state->held[c];
        uint32_t taken = c == class || held > kept ? held : kept;
        left -= taken < left ? taken : left;
    }
    uint32_t own = state->held[class] < most ? most - state->held[class] : 0;
    return client->throttled < (left < own ? left : own);
}

static void shown_add(struct scheduler_state *state, uint32_t index)
{
    struct scheduler_fair *fair = state->fair;
    struct scheduler_client *client = &fair->clients[index];
    if (client->is_shown)
        return;
    client->is_shown = true;
    state->weights[client->service_class] += client->weight;
    client->planned = 0;
    client->limit = INFINITY;
    client->holding = client->computing = client->throttled = 0;
    client->units = 0;
    client->shared_us = 0;
    client->wants = client->is_done = false;
    fair->shown[fair->shown_count++] = index;
}

/* Counts the running sequences, by client and by class. */
static void begin_running(struct scheduler_state *state)
{
    const struct scheduler_input *input = state->input;
    struct scheduler_fair_step *done = &state->plan->done;
    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        enum service_class class = sequence->service_class;
        shown_add(state, sequence->client);
        struct scheduler_client *client = scheduler_client_of(state, i);
        state->held[client->service_class]++;
        done->units[class] += scheduler_units(state, sequence);
        client->units += scheduler_units(state, sequence);
        client->throttled += sequence->is_throttled;
        if (sequence->is_throttled)
            continue;
        done->has_work[class] = true;
        done->has_work[client->service_class] = true;
        if (sequence->pages > 0 && state->first_holder[class] == SCHEDULER_NONE)
            state->first_holder[class] = i;
        client->wants = client->wants || sequence->pages == 0;
        if (sequence->pages > 0)
            client->holding++;
    }
}

static void begin_waiting(struct scheduler_state *state)
{
    const struct scheduler_input *input = state->input;
    for (uint32_t i = 0; i < input->waiting_count; i++) {
        const struct scheduler_sequence *sequence = &input->waiting[i];
        shown_add(state, sequence->client);
        struct scheduler_client *client = scheduler_client_of(state, input->running_count + i);
        if (!scheduler_turn_has_place(state, i + input->running_count))
            client->is_done = true;
        client->wants = client->wants || !client->is_done;
        if (!client->is_done)
            state->plan->done.has_work[sequence->service_class] = true;
    }
}

/* --- order of the running --- */

static double order_key(const struct scheduler_state *state, uint32_t index)
{
    bool is_holder = state->is_plain || scheduler_at(state, index)->pages > 0;
    return is_holder ? state->grants[index].key : scheduler_client_of(state, index)->served;
}

/* Whether a goes before b. */
static bool order_is_before(const struct scheduler_state *state, uint32_t a, uint32_t b,
                            bool by_over)
{
    enum service_class class_a = scheduler_class(state, a);
    enum service_class class_b = scheduler_class(state, b);
    if (class_a != class_b)
        return class_a < class_b;
    bool over_a = by_over && scheduler_over(state, a);
    bool over_b = by_over && scheduler_over(state, b);
    if (over_a != over_b)
        return over_b;
    bool spent_a = by_over && scheduler_take_is_spent(state, a);
    bool spent_b = by_over && scheduler_take_is_spent(state, b);
    if (spent_a != spent_b)
        return spent_b;
    bool paused_a = scheduler_at(state, a)->pages == 0;
    bool paused_b = scheduler_at(state, b)->pages == 0;
    if (paused_a != paused_b)
        return paused_b;
    double key_a = order_key(state, a);
    double key_b = order_key(state, b);
    if (key_a < key_b || key_a > key_b)
        return key_a < key_b;
    return a < b;
}

static void order_sort(struct scheduler_state *state, bool by_over)
{
    struct scheduler_grant *grants = state->grants;
    for (uint32_t n = 1; n < state->turns; n++) {
        uint32_t index = grants[n].turn;
        uint32_t place = n;
        for (; place > 0 && order_is_before(state, index, grants[place - 1].turn, by_over); place--)
            grants[place].turn = grants[place - 1].turn;
        grants[place].turn = index;
    }
}

static void order_make(struct scheduler_state *state)
{
    const struct scheduler_input *input = state->input;
    state->turns = 0;
    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        if (sequence->is_throttled)
            continue;
        state->grants[state->turns++].turn = i;
        if (state->is_plain)
            continue;
        state->grants[i].key = scheduler_turn_key(state, i);
        scheduler_client_of(state, i)->computing += sequence->pages > 0;
    }
    for (uint32_t n = 0; !state->is_plain && n < state->fair->shown_count; n++)
        state->fair->clients[state->fair->shown[n]].computing = 0;
}

double scheduler_turn_key(const struct scheduler_state *state, uint32_t index)
{
    const struct scheduler_client *client = scheduler_client_of(state, index);
    return (double)client->computing / client->weight;
}

/* Clients with sequences that do not fit in the step want more service too. */
static void order_find_put_off(struct scheduler_state *state)
{
    uint32_t holders = 0;
    for (uint32_t n = 0; n < state->turns; n++)
        holders += scheduler_at(state, state->grants[n].turn)->pages > 0;
    if (holders <= state->input->sequences_max)
        return;
    order_sort(state, false);
    uint32_t places = state->input->sequences_max;
    for (uint32_t n = 0; n < state->turns; n++) {
        if (scheduler_at(state, state->grants[n].turn)->pages == 0)
            continue;
        if (places == 0)
            scheduler_client_of(state, state->grants[n].turn)->wants = true;
        else
            places--;
    }
}

/* --- accounts --- */

/* A client that begins to want service has at most a quantum of credit. */
static void fair_begin(struct scheduler_state *state)
{
    struct scheduler_fair *fair = state->fair;
    for (uint32_t n = 0; n < fair->shown_count; n++) {
        struct scheduler_client *client = &fair->clients[fair->shown[n]];
        double credit_most = fair->level[client->service_class] - fair->options.quantum;
        bool was_backlogged = client->backlogged_at + 1 >= fair->plans;
        if (client->wants && !was_backlogged && client->served < credit_most)
            client->served = credit_most;
        client->is_backlogged = client->wants;
        if (client->wants)
            client->backlogged_at = fair->plans;
    }
}

/* No client is owed more than U + Q: service that others received while none of its requests could
 * be admitted is not made up for later. */
static void fair_forget(struct scheduler_state *state)
{
    struct scheduler_fair *fair = state->fair;
    double most[SERVICE_CLASS_COUNT] = {-INFINITY, -INFINITY, -INFINITY};
    for (uint32_t n = 0; n < fair->shown_count; n++) {
        const struct scheduler_client *client = &fair->clients[fair->shown[n]];
        if (client->served > most[client->service_class])
            most[client->service_class] = client->served;
    }
    for (uint32_t n = 0; n < fair->shown_count; n++) {
        struct scheduler_client *poor = &fair->clients[fair->shown[n]];
        if (!poor->wants ||
            poor->served >= most[poor->service_class] - scheduler_fair_slack(fair, poor->weight))
            continue; /* the usual case */
        for (uint32_t m = 0; m < fair->shown_count; m++) {
            const struct scheduler_client *rich = &fair->clients[fair->shown[m]];
            uint32_t weight = poor->weight < rich->weight ? poor->weight : rich->weight;
            double least = rich->served - scheduler_fair_slack(fair, weight);
            if (rich->service_class != poor->service_class || least <= poor->served)
                continue;
            fair->forgotten[poor->service_class] += least - poor->served;
            poor->served = least;
        }
    }
}

/* Sets the levels. While no client of a class wants service, none is owed any. */
static void fair_levels(struct scheduler_state *state)
{
    struct scheduler_fair *fair = state->fair;
    bool is_wanted[SERVICE_CLASS_COUNT] = {false};
    bool is_positive[SERVICE_CLASS_COUNT] = {false};
    double least[SERVICE_CLASS_COUNT];
    double most[SERVICE_CLASS_COUNT];
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        least[c] = INFINITY;
        most[c] = fair->level[c];
    }
    for (uint32_t n = 0; n < fair->shown_count; n++) {
        const struct scheduler_client *client = &fair->clients[fair->shown[n]];
        enum service_class class = client->service_class;
        most[class] = client->served > most[class] ? client->served : most[class];
        if (!client->wants)
            continue;
        is_wanted[class] = true;
        is_positive[class] = is_positive[class] || client->served < fair->level[class];
        least[class] = client->served < least[class] ? client->served : least[class];
    }
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        if (!is_wanted[c])
            fair->level[c] = most[c];
        else if (!is_positive[c])
            scheduler_fair_raise(fair, (enum service_class)c, least[c]);
    }
}

/* Tokens, in all layers, that the units of a full context in each slot have room for, or those of
 * the whole pool where that is less: what else a large pool holds is the cache's and charged to
 * nobody. */
static double fair_room_most(const struct scheduler_state *state)
{
    const struct scheduler_input *input = state->input;
    const uint32_t page = input->page_tokens;
    const uint64_t pages = ((uint64_t)state->fair->options.context + page - 1) / page;
    const uint64_t windows = pages < input->window_most ? pages : input->window_most;
    const uint64_t units = (pages + windows * input->window_units) * input->places;
    return (double)(units < input->units_total ? units : input->units_total) * page /
           scheduler_page_units(state);
}

/* A client is over when it has this much more service than a client that wants some, the lighter of
 * both having weight `weight`. Its limit is higher by the charges of one step. */
static double fair_over_from(const struct scheduler_state *state, uint32_t weight)
{
    double pages = scheduler_fair_residency(fair_room_most(state)) * 100 / weight;
    return scheduler_fair_slack(state->fair, weight) - pages -
           scheduler_fair_step_most(state->fair, weight);
}

/* Finds limit and is_over of a client, compared with all that want service. */
static void fair_find_limit(struct scheduler_state *state, struct scheduler_client *client)
{
    const struct scheduler_fair *fair = state->fair;
    double least = INFINITY;
    double over_at = INFINITY;
    for (uint32_t n = 0; n < fair->shown_count; n++) {
        const struct scheduler_client *poor = &fair->clients[fair->shown[n]];
        if (!poor->wants || poor->service_class != client->service_class ||
            poor->served >= client->served)
            continue;
        uint32_t weight = poor->weight < client->weight ? poor->weight : client->weight;
        double over = poor->served + fair_over_from(state, weight);
        double limit = over + scheduler_fair_step_most(fair, weight);
        over_at = over < over_at ? over : over_at;
        client->limit = limit < client->limit ? limit : client->limit;
        least = poor->served < least ? poor->served : least;
    }
    client->is_over = client->served > over_at ||
                      (client->is_over && client->served > least + fair->options.quantum);
}

/* Marks clients that could pass U + Q beyond one that wants service, until within Q of all. */
static void fair_find_over(struct scheduler_state *state)
{
    struct scheduler_fair *fair = state->fair;
    double least[SERVICE_CLASS_COUNT];
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        least[c] = INFINITY;
    for (uint32_t n = 0; n < fair->shown_count; n++) {
        const struct scheduler_client *client = &fair->clients[fair->shown[n]];
        if (client->wants && client->served < least[client->service_class])
            least[client->service_class] = client->served;
    }
    for (uint32_t n = 0; n < fair->shown_count; n++) {
        struct scheduler_client *client = &fair->clients[fair->shown[n]];
        double from = least[client->service_class] + fair_over_from(state, client->weight);
        if (client->is_over || client->served > from) /* true for few */
            fair_find_limit(state, client);
    }
}

static void begin_first(struct scheduler_state *state)
{
    for (uint32_t i = 0; i < state->input->running_count; i++) {
        enum service_class class = scheduler_class(state, i);
        uint32_t *first = &state->first[class];
        if (!state->input->running[i].is_throttled &&
            (*first == SCHEDULER_NONE ||
             (scheduler_over(state, *first) && !scheduler_over(state, i))))
            *first = i;
    }
}

void scheduler_turn_begin(struct scheduler_state *state)
{
    struct scheduler_fair *fair = state->fair;
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++)
        state->first[c] = state->first_holder[c] = SCHEDULER_NONE;
    if (!state->is_plain) {
        for (uint32_t n = 0; n < fair->shown_count; n++)
            fair->clients[fair->shown[n]].is_backlogged = false;
        fair->shown_count = 0;
        fair->plans++;
        begin_running(state);
        begin_waiting(state);
        order_make(state);
        order_find_put_off(state);
        fair_begin(state);
        fair_forget(state);
        fair_levels(state);
        fair_find_over(state);
        for (uint32_t n = 0; n < fair->shown_count; n++)
            fair->clients[fair->shown[n]].is_shown = false;
    } else {
        order_make(state);
    }
    begin_first(state);
    order_sort(state, true);
}

/* --- candidates --- */

/* Whether a is admitted before b, both of one client. */
static bool candidate_is_before(const struct scheduler_sequence *a,
                                const struct scheduler_sequence *b)
{
    bool passed_a = a->passed >= SCHEDULER_PASSED_MAX;
    bool passed_b = b->passed >= SCHEDULER_PASSED_MAX;
    if (passed_a || passed_b)
        return passed_a && !passed_b;
    return a->computed > b->computed;
}

static double candidate_had(const struct scheduler_client *client)
{
    return client->served + client->planned;
}

/* Finds the best candidate of each client; returns the least service of these clients, INFINITY if
 * there is none. */
static double candidate_of_each(const struct scheduler_state *state,
                                enum service_class service_class, bool is_over, double key,
                                bool is_first)
{
    const struct scheduler_input *input = state->input;
    struct scheduler_fair *fair = state->fair;
    double least = INFINITY;
    for (uint32_t n = 0; n < fair->shown_count; n++)
        fair->clients[fair->shown[n]].best = SCHEDULER_NONE;
    for (uint32_t i = 0; i < input->waiting_count; i++) {
        const struct scheduler_sequence *sequence = &input->waiting[i];
        struct scheduler_client *client = &fair->clients[sequence->client];
        uint32_t index = input->running_count + i;
        if (client->is_done || (is_first && client->holding > 0) ||
            sequence->service_class != service_class || scheduler_over(state, index) != is_over ||
            state->grants[index].act != SCHEDULER_STAY || scheduler_turn_key(state, index) >= key)
            continue;
        if (client->best == SCHEDULER_NONE ||
            candidate_is_before(sequence, scheduler_at(state, client->best)))
            client->best = index;
        double had = candidate_had(client);
        least = had < least ? had : least;
    }
    return least;
}

uint32_t scheduler_turn_candidate(const struct scheduler_state *state,
                                  enum service_class service_class, bool is_over, double key,
                                  bool is_first)
{
    const struct scheduler_fair *fair = state->fair;
    double least = candidate_of_each(state, service_class, is_over, key, is_first);
    if (isinf(least))
        return SCHEDULER_NONE;
    double level = fair->level[service_class];
    if (level <= least)
        level += (floor((least - level) / fair->options.quantum) + 1) * fair->options.quantum;
    uint32_t best = SCHEDULER_NONE;
    double best_had = INFINITY;
    for (uint32_t n = 0; n < fair->shown_count; n++) {
        const struct scheduler_client *client = &fair->clients[fair->shown[n]];
        if (client->best == SCHEDULER_NONE)
            continue;
        double had = candidate_had(client);
        if (had >= level)
            continue;
        uint32_t match = scheduler_at(state, client->best)->computed;
        uint32_t best_match = best == SCHEDULER_NONE ? 0 : scheduler_at(state, best)->computed;
        if (best == SCHEDULER_NONE || match > best_match ||
            (match == best_match && had < best_had)) {
            best = client->best;
            best_had = had;
        }
    }
    return best;
}
