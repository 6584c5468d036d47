#include "engine/scheduler/scheduler.h"

#include <math.h>
#include <string.h>

#include "config/base/status.h"
#include "engine/scheduler/scheduler_take.h"
#include "engine/scheduler/scheduler_turn.h"

/* --- rows --- */

static bool rows_is_decode(const struct scheduler_sequence *sequence)
{
    return sequence->tokens - sequence->computed == 1 && sequence->pages > 0;
}

/* The first position whose row is not computed and needs logits. */
static uint32_t rows_logits_from(const struct scheduler_sequence *sequence)
{
    return sequence->logits_from > sequence->computed ? sequence->logits_from : sequence->computed;
}

/* Rows that need logits among the next `rows` of a sequence. */
static uint32_t rows_of_logits(const struct scheduler_sequence *sequence, uint32_t rows)
{
    uint32_t end = sequence->computed + rows;
    uint32_t from = rows_logits_from(sequence);
    return end > from ? end - from : 0;
}

static double rows_us(const struct scheduler_state *state,
                      const struct scheduler_sequence *sequence, uint32_t rows)
{
    const struct scheduler_cost *cost = &state->input->cost;
    double keys = scheduler_cost_keys(cost, sequence->computed, rows);
    return rows * cost->row_us + keys * cost->key_us +
           rows_of_logits(sequence, rows) * sequence->draw_work * cost->draw_us;
}

/* The most of `rows` rows of a prompt that fit in the time left. The chunk ends where a page ends;
 * if no page ends in it, where 16 tokens end, since a chunk may be smaller than a large page. */
static uint32_t rows_in_time(const struct scheduler_state *state,
                             const struct scheduler_sequence *sequence, uint32_t rows, double us)
{
    if (!state->has_budget || rows_us(state, sequence, rows) <= us)
        return rows;
    uint32_t fits = 0;
    for (uint32_t over = rows; over - fits > 1;) {
        uint32_t middle = fits + (over - fits) / 2;
        if (rows_us(state, sequence, middle) <= us)
            fits = middle;
        else
            over = middle;
    }
    uint32_t over_page = (sequence->computed + fits) % state->input->page_tokens;
    if (over_page >= fits)
        over_page %= 16;
    fits -= over_page < fits ? over_page : fits;
    if (!state->has_chunk && fits < SCHEDULER_CHUNK_MIN)
        fits = SCHEDULER_CHUNK_MIN;
    return fits < rows ? fits : rows;
}

/* Rows, and their time, of decodes that come after the current prompt chunk, within sequences_max:
 * the chunk leaves them these. A realtime prompt leaves nothing. */
static uint32_t rows_reserved(const struct scheduler_state *state, enum service_class class,
                              double *us)
{
    *us = 0;
    uint32_t reserved = 0;
    if (!state->is_plain && class == SERVICE_CLASS_REALTIME && !state->input->is_preemption_off)
        return 0;
    uint32_t computing = state->computing + 1;
    for (uint32_t n = 0; n < state->turns && computing < state->input->sequences_max; n++) {
        uint32_t index = state->grants[n].turn;
        const struct scheduler_sequence *sequence = scheduler_at(state, index);
        if (!rows_is_decode(sequence) || state->grants[index].rows > 0 ||
            state->grants[index].is_yielding || state->grants[index].is_resting ||
            !scheduler_holds(state, index))
            continue;
        computing++;
        reserved++;
        *us += rows_us(state, sequence, 1);
    }
    return reserved;
}

/* Whether it is a prompt, and the only sequence that its client has or would have in the step. */
static bool rows_is_first(const struct scheduler_state *state, uint32_t index)
{
    const struct scheduler_sequence *sequence = scheduler_at(state, index);
    uint32_t holding = scheduler_client_of(state, index)->holding;
    return !rows_is_decode(sequence) && holding == (sequence->pages > 0);
}

/* Rows of a sequence that the rest of the budgets allows, before pages are looked at. */
static uint32_t rows_wanted(const struct scheduler_state *state, uint32_t index)
{
    const struct scheduler_sequence *sequence = scheduler_at(state, index);
    bool is_decode = rows_is_decode(sequence);
    double us = 0;
    uint32_t kept = is_decode ? 0 : rows_reserved(state, scheduler_class(state, index), &us);
    uint32_t left = state->rows_left > kept ? state->rows_left - kept
                    : state->rows_left > 0  ? 1
                                            : 0;
    uint32_t rows = sequence->tokens - sequence->computed;
    rows = rows < left ? rows : left;
    uint32_t logits = state->logit_rows_left > kept ? state->logit_rows_left - kept
                      : state->logit_rows_left > 0  ? 1
                                                    : 0;
    uint64_t rows_allowed = (uint64_t)rows_logits_from(sequence) - sequence->computed + logits;
    if (rows_allowed < rows)
        rows = (uint32_t)rows_allowed;
    us = state->us_left - us;
    if (state->us_more > 0 && rows_is_first(state, index))
        us += state->us_more;
    return is_decode ? rows : rows_in_time(state, sequence, rows, us);
}

/* The class of its client, whatever class it runs in because of its followers. */
static enum service_class rows_class(const struct scheduler_state *state, uint32_t index)
{
    return state->is_plain ? SERVICE_CLASS_REALTIME
                           : scheduler_client_of(state, index)->service_class;
}

/* Counts `rows` rows for a sequence, or with a negative sign takes them back. */
static void rows_count(struct scheduler_state *state, uint32_t index, uint32_t rows, bool is_back)
{
    const struct scheduler_sequence *sequence = scheduler_at(state, index);
    struct scheduler_plan *plan = state->plan;
    uint32_t units = scheduler_take_missing(state, index, rows);
    uint32_t logit_rows = rows_of_logits(sequence, rows);
    uint32_t sign = is_back ? -1u : 1;
    state->units_available -= sign * units;
    state->rows_left -= sign * rows;
    state->logit_rows_left -= sign * logit_rows;
    state->us_left -= (is_back ? -1 : 1) * rows_us(state, sequence, rows);
    state->computing += sign;
    bool is_chunk = !rows_is_decode(sequence);
    state->has_chunk = state->has_chunk || is_chunk;
    state->has_urgent_chunk = state->has_urgent_chunk ||
                              (is_chunk && scheduler_class(state, index) == SERVICE_CLASS_REALTIME);
    plan->rows += sign * rows;
    plan->logit_rows += sign * logit_rows;
    plan->done.rows[rows_class(state, index)] += sign * rows;
    state->grants[index].rows = is_back ? 0 : rows;
    if (state->is_plain)
        return;
    state->has_first_chunk = state->has_first_chunk || rows_is_first(state, index);
    struct scheduler_client *client = scheduler_client_of(state, index);
    client->computing += sign;
    client->planned += (is_back ? -1 : 1) * scheduler_take_charge(state, index, rows);
}

/* Whether the charge of these rows keeps a client that is over within its limit. */
static bool rows_may_pay(const struct scheduler_state *state, uint32_t index, uint32_t rows)
{
    if (state->is_plain || state->is_relaxed || !scheduler_over(state, index) ||
        state->plan->done.rows[rows_class(state, index)] == 0)
        return true;
    const struct scheduler_client *client = scheduler_client_of(state, index);
    return client->served + client->planned + scheduler_take_charge(state, index, rows) <=
           client->limit;
}

/* What the cache has for it may be held by a sequence that this plan has preempted.
 * Counting both the find and the pages given back would count these pages twice. The next
 * plan sees the result. */
static bool rows_is_unsure(const struct scheduler_state *state, uint32_t index)
{
    const struct scheduler_input *input = state->input;
    const struct scheduler_sequence *sequence = scheduler_at(state, index);
    if (sequence->pages > 0 || sequence->found_pages == sequence->found_cost)
        return false;
    const struct scheduler_client *clients = state->fair->clients;
    const struct engine_domain *tenant = &clients[sequence->client].tenant;
    for (uint32_t i = 0; i < input->running_count; i++)
        if (state->grants[i].act == SCHEDULER_PAUSE &&
            (sequence->is_found_shared ||
             memcmp(&clients[input->running[i].client].tenant, tenant, sizeof(*tenant)) == 0))
            return true;
    return false;
}

/* Grants a sequence at most `most` rows, as budgets and pages allow, and takes pages of victims. */
static bool rows_grant(struct scheduler_state *state, uint32_t index, uint32_t most)
{
    if (!state->is_plain && !state->input->is_preemption_off &&
        state->computing >= state->input->sequences_max)
        return false;
    if (state->is_relaxed && state->plan->rows > 0)
        return false;
    const struct scheduler_sequence *sequence = scheduler_at(state, index);
    uint32_t rows = rows_wanted(state, index);
    rows = rows < most ? rows : most;
    if (rows == 0 || !rows_may_pay(state, index, rows))
        return false;
    if (state->is_floor && !scheduler_take_is_left(state, index, rows))
        return false;
    if (scheduler_take_missing(state, index, rows) > state->units_available &&
        !rows_is_unsure(state, index)) {
        uint64_t reachable = scheduler_take_reachable(state, index);
        uint32_t cost = scheduler_found_cost(sequence);
        if (cost > reachable)
            return false;
        uint64_t room =
            (scheduler_pages(sequence) + (reachable - cost) / scheduler_page_units(state)) *
            state->input->page_tokens;
        if (room <= sequence->computed)
            return false;
        rows = room - sequence->computed < rows ? (uint32_t)(room - sequence->computed) : rows;
        bool is_taken = scheduler_take(state, index, scheduler_take_missing(state, index, rows));
        ASSERT(is_taken);
    }
    if (rows_is_unsure(state, index)) {
        state->is_blocked = true;
        return false;
    }
    rows_count(state, index, rows, false);
    if (index < state->input->running_count && sequence->pages == 0)
        state->grants[index].act = SCHEDULER_RESUME;
    return true;
}

/* --- admission and resume --- */

/* The decode of a class in this step that has the largest key: it is put off for a client that has
 * fewer sequences for its weight. */
static uint32_t enter_last(const struct scheduler_state *state, enum service_class class)
{
    uint32_t last = SCHEDULER_NONE;
    for (uint32_t n = 0; n < state->turns; n++) {
        uint32_t i = state->grants[n].turn;
        const struct scheduler_grant *grant = &state->grants[i];
        if (grant->rows == 1 && grant->act == SCHEDULER_STAY &&
            scheduler_class(state, i) == class && rows_is_decode(scheduler_at(state, i)) &&
            (last == SCHEDULER_NONE || grant->key >= state->grants[last].key))
            last = i;
    }
    return last;
}

/* One more sequence of a class fits in the step for clients whose key is below this. */
static double enter_key(const struct scheduler_state *state, enum service_class class)
{
    if (state->is_plain || state->computing < state->input->sequences_max)
        return INFINITY;
    uint32_t last = state->input->is_preemption_off ? SCHEDULER_NONE : enter_last(state, class);
    return last == SCHEDULER_NONE ? 0 : state->grants[last].key;
}

/* Makes room in the step for one more sequence: one decode is put off and keeps its pages. */
static uint32_t enter_put_off(struct scheduler_state *state, enum service_class class)
{
    if (state->is_plain || state->computing < state->input->sequences_max)
        return SCHEDULER_NONE;
    uint32_t last = enter_last(state, class);
    rows_count(state, last, 1, true);
    return last;
}

/* The room was not used: gives the row back, unless the pages were taken meanwhile. */
static void enter_put_back(struct scheduler_state *state, uint32_t index)
{
    if (index != SCHEDULER_NONE && state->grants[index].act == SCHEDULER_STAY)
        rows_count(state, index, 1, false);
}

/* Resumes a preempted sequence, if it can be; else none after it is resumed or admitted. */
static void enter_resume(struct scheduler_state *state, uint32_t index)
{
    if (state->grants[index].rows > 0 || state->is_blocked)
        return;
    enum service_class class = scheduler_class(state, index);
    bool is_first = state->first[class] == index;
    for (uint32_t c = 0; c < (uint32_t) class; c++)
        is_first = is_first && state->first[c] == SCHEDULER_NONE && !state->is_plain;
    if (!is_first &&
        scheduler_take_room(state, index) < scheduler_take_missing_whole(state, index)) {
        state->is_blocked = true;
        return;
    }
    if (!state->is_plain && scheduler_turn_key(state, index) >= enter_key(state, class))
        return;
    uint32_t put_off = enter_put_off(state, class);
    if (!rows_grant(state, index, UINT32_MAX)) {
        state->is_blocked = true;
        enter_put_back(state, put_off);
    }
}

static void enter_admit(struct scheduler_state *state, uint32_t index)
{
    state->grants[index].act = SCHEDULER_ADMIT;
    state->held[scheduler_client_of(state, index)->service_class]++;
    state->plan->admitted++;
}

/* Admits a waiting sequence, if it can be; else none after it is admitted. */
static bool enter_new(struct scheduler_state *state, uint32_t index, bool is_over)
{
    if (scheduler_take_room(state, index) < scheduler_take_missing_whole(state, index)) {
        state->is_blocked = true;
        return false;
    }
    uint32_t put_off = enter_put_off(state, scheduler_class(state, index));
    if (!rows_grant(state, index, UINT32_MAX)) {
        enter_put_back(state, put_off);
        /* No rows or no time left: a shorter prompt of a lower class must not pass it. */
        state->is_blocked = state->is_blocked || !is_over;
        return false;
    }
    enter_admit(state, index);
    return true;
}

/* Admits new sequences of a class; the first that has no room stops those after it. A client with a
 * sequence put off gets no new one, or that sequence would be passed again and again. */
static void enter_admissions(struct scheduler_state *state, enum service_class class, bool is_over)
{
    while (!state->is_blocked && state->rows_left > 0) {
        uint32_t index =
            scheduler_turn_candidate(state, class, is_over, enter_key(state, class), false);
        if (index == SCHEDULER_NONE)
            return;
        struct scheduler_client *client = scheduler_client_of(state, index);
        if (!scheduler_turn_has_place(state, index) || client->computing < client->holding) {
            client->is_done = true;
            continue;
        }
        if (!enter_new(state, index, is_over))
            return;
    }
}

/* --- a class --- */

/* The sequences of a class whose clients are over, or those whose clients are not. */
struct band {
    enum service_class class;
    bool is_over;
    uint32_t from; /* turns from … to - 1 */
    uint32_t to;
};

/* Service of its client including this plan; for a first prompt, a quantum less. */
static double band_had(const struct scheduler_state *state, uint32_t index)
{
    if (state->is_plain)
        return 0;
    const struct scheduler_client *client = scheduler_client_of(state, index);
    return client->served + client->planned -
           (rows_is_first(state, index) ? state->fair->options.quantum : 0);
}

/* Puts off the sequences beyond sequences_max. */
static void band_put_off(struct scheduler_state *state, const struct band *band)
{
    const struct scheduler_input *input = state->input;
    if (state->is_plain || input->is_preemption_off)
        return;
    uint32_t places = input->sequences_max - state->computing;
    for (uint32_t n = band->from; n < band->to; n++) {
        uint32_t index = state->grants[n].turn;
        if (state->grants[index].rows > 0 || !scheduler_holds(state, index))
            continue;
        state->grants[index].is_tried = places == 0;
        places -= places > 0;
    }
}

/* A waiting first prompt that can be admitted, or SCHEDULER_NONE. */
static uint32_t band_newcomer(const struct scheduler_state *state, const struct band *band)
{
    uint32_t next = scheduler_turn_candidate(state, band->class, band->is_over, INFINITY, true);
    bool comes_in = next != SCHEDULER_NONE && scheduler_turn_has_place(state, next) &&
                    scheduler_take_room(state, next) >= scheduler_take_missing_whole(state, next);
    return comes_in ? next : SCHEDULER_NONE;
}

static uint32_t band_left(const struct scheduler_state *state, uint32_t index)
{
    return scheduler_at(state, index)->tokens - scheduler_at(state, index)->computed;
}

/* The first prompt to compute next: a running one, or a new one that can be admitted if it is
 * shorter and its client has had no more service. No new one while a sequence of the band is
 * preempted; but one with a claim to pages comes before those whose clients hold more than their
 * part. SCHEDULER_NONE if there is neither. */
static uint32_t band_first(const struct scheduler_state *state, const struct band *band)
{
    uint32_t best = SCHEDULER_NONE;
    bool is_closed = false; /* a sequence is preempted */
    bool is_owed = false;   /* one whose client is within its part of the pages is */
    for (uint32_t n = band->from; n < band->to; n++) {
        uint32_t index = state->grants[n].turn;
        bool is_preempted = scheduler_at(state, index)->pages == 0;
        is_closed = is_closed || is_preempted;
        is_owed = is_owed || (is_preempted && scheduler_take_is_within(state, index));
        if (state->grants[index].rows == 0 && !state->grants[index].is_tried &&
            scheduler_holds(state, index) && rows_is_first(state, index) &&
            (best == SCHEDULER_NONE || band_had(state, index) < band_had(state, best)))
            best = index;
    }
    uint32_t next = state->is_blocked ? SCHEDULER_NONE : band_newcomer(state, band);
    if (next != SCHEDULER_NONE && is_closed && (is_owed || !scheduler_take_has_claim(state, next)))
        next = SCHEDULER_NONE;
    bool is_before = best == SCHEDULER_NONE ||
                     (next != SCHEDULER_NONE && band_left(state, next) < band_left(state, best) &&
                      band_had(state, next) <= band_had(state, best));
    return is_before ? next : best;
}

/* Shares the time of a step as its sequences are shared: beside a client's first prompt, another
 * client has at most an eighth of the step's decodes, by weight, unless it has had less service by
 * a quantum or more. */
static void band_yield(struct scheduler_state *state, const struct band *band, uint32_t first)
{
    double key_most = state->input->sequences_max / 8.0 / 100;
    for (uint32_t n = band->from; n < band->to; n++) {
        uint32_t index = state->grants[n].turn;
        struct scheduler_grant *grant = &state->grants[index];
        grant->is_yielding = first != SCHEDULER_NONE &&
                             rows_is_decode(scheduler_at(state, index)) && grant->key > 0 &&
                             grant->key >= key_most &&
                             band_had(state, index) > band_had(state, first);
    }
}

static bool band_may_decode(const struct scheduler_state *state, uint32_t index)
{
    const struct scheduler_grant *grant = &state->grants[index];
    return rows_is_decode(scheduler_at(state, index)) && grant->rows == 0 && !grant->is_tried &&
           !grant->is_yielding && scheduler_holds(state, index);
}

/* Of the resting decodes the next that gets a row: its client has taken the least time of the step
 * for its weight; among equals, the one that has rested longest. */
static uint32_t band_next_shared(const struct scheduler_state *state, const struct band *band)
{
    uint32_t best = SCHEDULER_NONE;
    for (uint32_t n = band->from; n < band->to; n++) {
        uint32_t index = state->grants[n].turn;
        if (!state->grants[index].is_resting)
            continue;
        if (best == SCHEDULER_NONE) {
            best = index;
            continue;
        }
        double had = scheduler_client_of(state, index)->shared_us;
        double best_had = scheduler_client_of(state, best)->shared_us;
        uint32_t rested = scheduler_at(state, index)->rested;
        uint32_t best_rested = scheduler_at(state, best)->rested;
        if (had < best_had || (had <= best_had && rested > best_rested) ||
            (had <= best_had && rested == best_rested && index < best))
            best = index;
    }
    return best;
}

/* Divides the time of a step in which several clients have decodes: a client with few decodes has
 * them in every step, a client with many has them in turns. The time of the rows counts, so a
 * client does not pay for another's long contexts. */
static void band_share(struct scheduler_state *state, const struct band *band)
{
    const uint32_t rows_least = state->input->sequences_max / SCHEDULER_SHARED_MIN;
    double us = 0;
    if (!state->plan->is_shared)
        return;
    for (uint32_t n = band->from; n < band->to; n++) {
        uint32_t index = state->grants[n].turn;
        bool may = !state->is_relaxed && band_may_decode(state, index);
        state->grants[index].is_resting = may;
        us += may ? rows_us(state, scheduler_at(state, index), 1) : 0;
    }
    const bool is_room_for_all = us <= state->shared_left;
    for (;;) {
        uint32_t index = band_next_shared(state, band);
        if (index == SCHEDULER_NONE)
            return;
        struct scheduler_client *client = scheduler_client_of(state, index);
        us = rows_us(state, scheduler_at(state, index), 1);
        if (!is_room_for_all && client->shared_us > 0 && state->shared_rows >= rows_least &&
            us > state->shared_left)
            return;
        state->grants[index].is_resting = false;
        state->shared_left -= us;
        state->shared_rows++;
        client->shared_us += us * 100 / client->weight;
    }
}

/* Yielding decodes get a row after all if no first prompt has used what they left. */
static void band_go_on(struct scheduler_state *state, const struct band *band)
{
    for (uint32_t n = band->from; n < band->to && !state->has_first_chunk; n++) {
        uint32_t index = state->grants[n].turn;
        if (state->grants[index].is_yielding && state->grants[index].rows == 0 &&
            scheduler_holds(state, index))
            rows_grant(state, index, 1);
    }
}

/* Grants decodes. While the first sequence of its class is preempted, decodes that need a page wait
 * until it has its own: the available pages may be those that the cache has for it. */
static void band_decodes(struct scheduler_state *state, const struct band *band)
{
    for (uint32_t n = band->from; n < band->to; n++) {
        uint32_t index = state->grants[n].turn;
        uint32_t first = state->first[scheduler_class(state, index)];
        bool is_behind = scheduler_at(state, first)->pages == 0 && first < index &&
                         scheduler_take_missing(state, index, 1) > 0;
        if (band_may_decode(state, index) && !state->grants[index].is_resting && !is_behind)
            rows_grant(state, index, 1);
    }
}

/* Grants prompts, and decodes that got no row yet, those of the client with the
 * least service first. */
static void band_chunks(struct scheduler_state *state, const struct band *band)
{
    for (uint32_t tried = band->from; tried < band->to; tried++) {
        uint32_t best = SCHEDULER_NONE;
        double best_had = 0;
        for (uint32_t n = band->from; n < band->to; n++) {
            uint32_t index = state->grants[n].turn;
            struct scheduler_grant *grant = &state->grants[index];
            if (grant->rows > 0 || grant->is_tried || grant->is_yielding || grant->is_resting ||
                !scheduler_holds(state, index))
                continue;
            double had = band_had(state, index);
            if (best == SCHEDULER_NONE || had < best_had || (had <= best_had && index < best)) {
                best = index;
                best_had = had;
            }
        }
        if (best == SCHEDULER_NONE)
            return;
        state->grants[best].is_tried = true;
        rows_grant(state, best, UINT32_MAX);
    }
}

static void band_plan(struct scheduler_state *state, const struct band *band)
{
    uint32_t first = state->first[band->class];
    bool has_first = first != SCHEDULER_NONE && scheduler_over(state, first) == band->is_over;
    band_put_off(state, band);
    uint32_t prompt = SCHEDULER_NONE;
    if (!state->is_plain && !state->input->is_preemption_off)
        prompt = band_first(state, band);
    state->has_first_chunk = false;
    band_yield(state, band, prompt);
    band_share(state, band);
    band_decodes(state, band);
    if (prompt != SCHEDULER_NONE && prompt >= state->input->running_count &&
        scheduler_turn_key(state, prompt) < enter_key(state, band->class))
        enter_new(state, prompt, band->is_over);
    if (has_first && scheduler_at(state, first)->pages == 0)
        enter_resume(state, first);
    band_chunks(state, band);
    for (uint32_t n = band->from; n < band->to; n++) /* room in the step that others did not use */
        if (state->grants[state->grants[n].turn].rows == 0 &&
            !state->grants[state->grants[n].turn].is_yielding &&
            !state->grants[state->grants[n].turn].is_resting &&
            scheduler_holds(state, state->grants[n].turn))
            rows_grant(state, state->grants[n].turn, UINT32_MAX);
    for (uint32_t n = band->from; n < band->to; n++)
        if (scheduler_at(state, state->grants[n].turn)->pages == 0)
            enter_resume(state, state->grants[n].turn);
    if (state->is_plain)
        return;
    enter_admissions(state, band->class, band->is_over);
    band_go_on(state, band);
}

static void class_plan(struct scheduler_state *state, enum service_class class)
{
    uint32_t n = 0;
    while (n < state->turns && scheduler_class(state, state->grants[n].turn) < class)
        n++;
    for (uint32_t over = 0; over < 2; over++) {
        struct band band = {.class = class, .is_over = over == 1, .from = n};
        while (n < state->turns && scheduler_class(state, state->grants[n].turn) == class &&
               scheduler_over(state, state->grants[n].turn) == band.is_over)
            n++;
        band.to = n;
        band_plan(state, &band);
    }
}

/* --- floors --- */

/* Whether a sequence without pages has room. A class that holds no pages may use all it reaches. */
static bool floor_has_room(const struct scheduler_state *state, uint32_t index)
{
    bool is_only = state->first_holder[scheduler_class(state, index)] == SCHEDULER_NONE;
    uint64_t room =
        is_only ? scheduler_take_reachable(state, index) : scheduler_take_room(state, index);
    return room >= scheduler_take_missing_whole(state, index);
}

/* Grants up to `owed` rows to clients of a class that are over, or to those that are not: to
 * sequences in turn, then to preempted ones, then to new ones. Returns what is left of `owed`. */
static uint32_t floor_give(struct scheduler_state *state, enum service_class class, bool is_over,
                           uint32_t owed)
{
    uint32_t places = (state->input->sequences_max + 1) / 2;
    for (uint32_t paused = 0; paused < 2; paused++) {
        for (uint32_t n = 0; n < state->turns && owed > 0; n++) {
            uint32_t index = state->grants[n].turn;
            bool is_next = paused == 0 ? scheduler_holds(state, index)
                                       : scheduler_at(state, index)->pages == 0 &&
                                             floor_has_room(state, index);
            if (scheduler_class(state, index) == class && scheduler_over(state, index) == is_over &&
                is_next && rows_grant(state, index, owed))
                owed -= state->grants[index].rows;
        }
    }
    while (owed > 0 && state->computing < places) {
        uint32_t index = scheduler_turn_candidate(state, class, is_over, INFINITY, false);
        if (index == SCHEDULER_NONE || !scheduler_turn_has_place(state, index) ||
            !floor_has_room(state, index) || !rows_grant(state, index, owed))
            break;
        owed -= state->grants[index].rows;
        enter_admit(state, index);
    }
    return owed;
}

/* Grants the rows that a class lacks of its floor, to at most half of sequences_max. Half of the
 * step's rows stay for more urgent classes, whatever the floors lack. */
static void floor_plan(struct scheduler_state *state, enum service_class class)
{
    uint32_t kept = state->input->rows_max / 2;
    uint32_t left = state->rows_left > kept ? state->rows_left - kept : 0;
    uint32_t owed = scheduler_fair_owed(state->fair, class);
    owed = owed < left ? owed : left;
    if (owed > 0)
        owed = floor_give(state, class, false, owed);
    if (owed > 0)
        floor_give(state, class, true, owed);
}

/* Serves the floors before the more urgent classes, which could use up the whole step. */
static void floors_plan(struct scheduler_state *state)
{
    const struct scheduler_fair_step *done = &state->plan->done;
    bool has_more_urgent = done->has_work[0];
    state->is_floor = true;
    for (uint32_t c = 1; c < SERVICE_CLASS_COUNT; c++) {
        if (has_more_urgent && done->has_work[c])
            floor_plan(state, (enum service_class)c);
        has_more_urgent = has_more_urgent || done->has_work[c];
    }
    state->is_floor = false;
    state->is_blocked = false;
    state->has_chunk = false; /* the first chunk outside the floors is still to come */
}

/* --- the whole plan --- */

/* Forms a window or static batch: admits all that wait, and grants them rows while
 * there is room. */
static void plan_admit_together(struct scheduler_state *state)
{
    const struct scheduler_input *input = state->input;
    uint32_t computing = 0;
    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        if (sequence->is_throttled)
            continue;
        if (input->mode == SCHEDULER_STATIC || !rows_is_decode(sequence))
            return;
        computing++;
    }
    uint32_t places = input->places - input->running_count;
    if (places > input->sequences_max - computing)
        places = input->sequences_max > computing ? input->sequences_max - computing : 0;
    for (uint32_t i = 0; i < input->waiting_count && i < places; i++) {
        uint32_t index = input->running_count + i;
        state->is_blocked =
            state->is_blocked ||
            scheduler_take_room(state, index) < scheduler_take_missing_whole(state, index) ||
            !rows_grant(state, index, UINT32_MAX);
        state->grants[index].act = SCHEDULER_ADMIT;
        state->plan->admitted++;
    }
}

static void plan_classes(struct scheduler_state *state)
{
    const struct scheduler_input *input = state->input;
    if (input->sequences_max > 1 || input->fair->steps % 2 == 0)
        floors_plan(state); /* with one sequence a step, floors have every second step only */
    for (uint32_t c = 0; c < SERVICE_CLASS_COUNT; c++) {
        class_plan(state, (enum service_class)c);
        if (c > SERVICE_CLASS_REALTIME)
            continue;
        uint32_t urgent_rows = state->plan->done.rows[SERVICE_CLASS_REALTIME];
        if (state->has_urgent_chunk && !input->is_preemption_off)
            return; /* the floors have had their rows */
        if (urgent_rows > 0 || input->urgent_us <= 0)
            continue;
        if (!state->has_budget)
            state->us_left += input->urgent_us;
        else if (input->urgent_us < input->budget_us - state->us_more)
            state->us_left -= input->budget_us - state->us_more - input->urgent_us;
        state->has_budget = true;
        state->us_more = 0;
    }
}

/* Some sequence can always go on: the first, with the pages of all others. */
static void plan_go_on(struct scheduler_state *state)
{
    const struct scheduler_plan *plan = state->plan;
    if (plan->rows > 0 || plan->paused > 0)
        return;
    state->is_relaxed = true;
    for (uint32_t i = 0; i < state->input->running_count; i++)
        state->grants[i].is_tried = false;
    for (uint32_t i = 0; !state->is_plain && i < state->fair->shown_count; i++)
        state->fair->clients[state->fair->shown[i]].is_done = false;
    for (uint32_t c = 0; !state->is_plain && c < SERVICE_CLASS_COUNT && plan->rows == 0; c++) {
        state->is_blocked = false;
        class_plan(state, (enum service_class)c);
    }
    for (uint32_t n = 0; n < state->turns && plan->rows == 0 && plan->paused == 0; n++)
        scheduler_take_any(state, state->grants[n].turn);
}

/* Whether decodes of a step have to leave time to other clients: to those that compute, or to one
 * that may come soon and would wait for the current step. */
static bool plan_is_shared(const struct scheduler_state *state)
{
    const struct scheduler_fair *fair = state->fair;
    uint32_t holders = 0;
    if (state->is_plain || state->input->shared_us <= 0)
        return false;
    for (uint32_t n = 0; n < fair->shown_count; n++)
        holders += fair->clients[fair->shown[n]].holding > 0;
    return holders > 1 || (holders > 0 && scheduler_fair_is_mixed(fair));
}

static void plan_begin(const struct scheduler_input *input, struct scheduler_grant *grants)
{
    for (uint32_t i = 0; i < input->running_count + input->waiting_count; i++)
        grants[i] = (struct scheduler_grant){0};
    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        ASSERT(sequence->computed < sequence->tokens);
        ASSERT(sequence->logits_from < sequence->tokens);
        ASSERT((uint64_t)(sequence->pages > 0 ? sequence->pages : sequence->found_pages) *
                   input->page_tokens >=
               sequence->computed);
    }
}

/* A client whose sequence got no row is backlogged, even if the plan did not begin so: it
 * keeps its deficit. */
static void plan_note_put_off(const struct scheduler_state *state)
{
    for (uint32_t i = 0; i < state->input->running_count; i++) {
        const struct scheduler_sequence *sequence = &state->input->running[i];
        if (!sequence->is_throttled && state->grants[i].rows == 0)
            scheduler_client_of(state, i)->backlogged_at = state->fair->plans;
    }
}

void scheduler_plan(const struct scheduler_input *input, struct scheduler_plan *plan,
                    struct scheduler_grant *grants)
{
    *plan = (struct scheduler_plan){0};
    plan_begin(input, grants);
    struct scheduler_state state = {
        .input = input,
        .fair = input->fair,
        .plan = plan,
        .grants = grants,
        .is_plain = input->mode != SCHEDULER_CONTINUOUS,
        .units_available = input->units_available,
        .units_protected = input->units_protected,
        .rows_left = input->rows_max,
        .logit_rows_left = input->logit_rows_max,
        .has_budget = input->budget_us > 0,
        .us_left = input->budget_us - input->cost.fixed_us,
    };
    if (!state.is_plain && scheduler_fair_is_mixed(input->fair)) {
        state.us_more = input->budget_us * 2 / 3;
        state.us_left -= state.us_more;
    }
    scheduler_turn_begin(&state);
    plan->is_shared = plan_is_shared(&state);
    state.shared_left = input->shared_us - input->cost.fixed_us;
    if (state.is_plain) {
        band_plan(&state, &(struct band){.class = SERVICE_CLASS_REALTIME, .to = state.turns});
        if (!state.is_blocked)
            plan_admit_together(&state);
        plan_go_on(&state);
        return;
    }
    state.floor_units =
        (uint32_t)((uint64_t)input->units_total * input->fair->options.floor_percent / 100);
    plan_classes(&state);
    plan_go_on(&state);
    plan_note_put_off(&state);
}
