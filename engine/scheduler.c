#include "engine/scheduler.h"

#include <stddef.h>

#include "config/base/status.h"

enum { NOBODY = UINT32_MAX };

struct plan_state {
    const struct scheduler_input *input;
    struct scheduler_plan *plan;
    struct scheduler_grant *grants;
    uint32_t pages_available;
    uint32_t rows_left;
    uint32_t logit_rows_left;
    double us_left;
    bool has_chunk; /* of a prompt */
};

static uint32_t plan_pages(const struct plan_state *state, uint64_t tokens)
{
    uint32_t page_tokens = state->input->page_tokens;
    return (uint32_t)((tokens + page_tokens - 1) / page_tokens);
}

static bool plan_holds(const struct plan_state *state, uint32_t index)
{
    return state->input->running[index].pages > 0 && state->grants[index].act != SCHEDULER_PAUSE;
}

static bool plan_is_decode(const struct scheduler_sequence *sequence)
{
    return sequence->tokens - sequence->computed == 1 && sequence->pages > 0;
}

/* How many may be admitted: those that are throttled do not compute. */
static uint32_t plan_places(const struct scheduler_input *input)
{
    uint32_t computing = 0;
    for (uint32_t i = 0; i < input->running_count; i++)
        computing += !input->running[i].is_throttled;
    uint32_t most = input->sequences_max > computing ? input->sequences_max - computing : 0;
    uint32_t places = input->places - input->running_count;
    return most < places ? most : places;
}

/* Pages that the next `rows` rows of a sequence take from the available ones. */
static uint32_t plan_missing(const struct plan_state *state,
                             const struct scheduler_sequence *sequence, uint32_t rows)
{
    uint32_t held = sequence->pages > 0 ? sequence->pages : sequence->found_pages;
    uint32_t wanted = plan_pages(state, (uint64_t)sequence->computed + rows);
    uint32_t cost = sequence->pages > 0 ? 0 : sequence->found_cost;
    return cost + (wanted > held ? wanted - held : 0);
}

/* The same until its next token has a place. */
static uint32_t plan_missing_whole(const struct plan_state *state,
                                   const struct scheduler_sequence *sequence)
{
    return plan_missing(state, sequence, sequence->tokens + 1 - sequence->computed);
}

/* Whose pages sequence `index` may take: the youngest throttled one, else the youngest that is
 * younger and idle in this step. Sequences past the running ones are all younger and hold none. */
static uint32_t plan_victim(const struct plan_state *state, uint32_t index)
{
    const struct scheduler_input *input = state->input;
    for (uint32_t i = input->running_count; i-- > 0;)
        if (i != index && input->running[i].is_throttled && plan_holds(state, i))
            return i;
    for (uint32_t i = input->running_count; i-- > index + 1;)
        if (plan_holds(state, i) && state->grants[i].rows == 0)
            return i;
    return NOBODY;
}

static void plan_drop(struct plan_state *state, uint32_t victim)
{
    state->grants[victim] = (struct scheduler_grant){.act = SCHEDULER_PAUSE};
    state->pages_available += state->input->running[victim].pages_back;
    state->plan->paused++;
}

static double plan_us(const struct plan_state *state, const struct scheduler_sequence *sequence,
                      uint32_t rows)
{
    const struct scheduler_cost *cost = &state->input->cost;
    double keys = (double)rows * sequence->computed + (double)rows * (rows + 1.0) / 2;
    return rows * cost->row_us + keys * cost->key_us;
}

/* The most of `rows` rows of a prompt that the time left allows, cut where a page ends. */
static uint32_t plan_rows_in_time(const struct plan_state *state,
                                  const struct scheduler_sequence *sequence, uint32_t rows)
{
    if (state->input->budget_us <= 0 || plan_us(state, sequence, rows) <= state->us_left)
        return rows;
    uint32_t fits = 0;
    for (uint32_t over = rows; over - fits > 1;) {
        uint32_t middle = fits + (over - fits) / 2;
        if (plan_us(state, sequence, middle) <= state->us_left)
            fits = middle;
        else
            over = middle;
    }
    uint32_t over_page = (sequence->computed + fits) % state->input->page_tokens;
    fits -= over_page < fits ? over_page : fits;
    if (!state->has_chunk && fits < SCHEDULER_CHUNK_MIN)
        fits = SCHEDULER_CHUNK_MIN;
    return fits < rows ? fits : rows;
}

/* Rows of `sequence` that the rest of the budgets allows, before pages are asked. */
static uint32_t plan_rows_wanted(const struct plan_state *state,
                                 const struct scheduler_sequence *sequence)
{
    uint32_t rows = sequence->tokens - sequence->computed;
    if (rows > state->rows_left)
        rows = state->rows_left;
    uint32_t logits_from =
        sequence->logits_from > sequence->computed ? sequence->logits_from : sequence->computed;
    uint64_t rows_allowed = (uint64_t)logits_from - sequence->computed + state->logit_rows_left;
    if (rows_allowed < rows)
        rows = (uint32_t)rows_allowed;
    return plan_is_decode(sequence) ? rows : plan_rows_in_time(state, sequence, rows);
}

static void plan_count(struct plan_state *state, uint32_t index,
                       const struct scheduler_sequence *sequence, uint32_t rows)
{
    state->pages_available -= plan_missing(state, sequence, rows);
    state->grants[index].rows = rows;
    state->rows_left -= rows;
    state->us_left -= plan_us(state, sequence, rows);
    state->has_chunk = state->has_chunk || !plan_is_decode(sequence);
    state->plan->rows += rows;
    uint32_t end = sequence->computed + rows;
    if (end > sequence->logits_from) {
        uint32_t from =
            sequence->logits_from > sequence->computed ? sequence->logits_from : sequence->computed;
        state->logit_rows_left -= end - from;
        state->plan->logit_rows += end - from;
    }
}

/* Grants sequence `index` as many rows as budgets and pages allow, taking pages of victims. */
static void plan_grant(struct plan_state *state, uint32_t index,
                       const struct scheduler_sequence *sequence)
{
    uint32_t rows = plan_rows_wanted(state, sequence);
    if (rows == 0)
        return;
    while (plan_missing(state, sequence, rows) > state->pages_available) {
        uint32_t victim = plan_victim(state, index);
        if (victim == NOBODY)
            break;
        plan_drop(state, victim);
    }
    if (plan_missing(state, sequence, rows) > state->pages_available) {
        uint32_t held = sequence->pages > 0 ? sequence->pages : sequence->found_pages;
        uint32_t cost = sequence->pages > 0 ? 0 : sequence->found_cost;
        if (cost > state->pages_available)
            return;
        uint64_t room =
            (uint64_t)(held + state->pages_available - cost) * state->input->page_tokens;
        if (room <= sequence->computed)
            return;
        rows = (uint32_t)(room - sequence->computed);
    }
    plan_count(state, index, sequence, rows);
}

/* Pages that a sequence without any may count on: the available ones and those of the throttled,
 * less what prompts under way still need, less one page of growth for each that runs. */
static uint64_t plan_pages_available(const struct plan_state *state)
{
    const struct scheduler_input *input = state->input;
    uint64_t available = state->pages_available;
    uint64_t promised = 0;
    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        uint32_t rows = state->grants[i].rows;
        if (rows == 0 && !plan_holds(state, i))
            continue;
        if (sequence->is_throttled)
            available += sequence->pages_back;
        else
            promised += 1 + plan_missing_whole(state, sequence) -
                        (rows > 0 ? plan_missing(state, sequence, rows) : 0);
    }
    return available > promised ? available - promised : 0;
}

/* Running sequences with more than one row to compute, oldest first. True when nobody who is
 * paused is left waiting, so that new sequences may come in. */
static bool plan_prefills(struct plan_state *state)
{
    const struct scheduler_input *input = state->input;
    bool is_oldest = true;
    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        struct scheduler_grant *grant = &state->grants[i];
        if (sequence->is_throttled)
            continue;
        if (grant->act == SCHEDULER_PAUSE)
            return false;
        if (grant->rows == 0) {
            if (sequence->pages == 0 && !is_oldest &&
                plan_pages_available(state) < plan_missing_whole(state, sequence))
                return false; /* whoever is younger stays behind it */
            plan_grant(state, i, sequence);
            if (sequence->pages == 0 && grant->rows == 0)
                return false;
        }
        is_oldest = false;
    }
    return true;
}

/* Rows for waiting sequence `i` when its whole prompt has room in `*pages`, which it then has not
 * any more. */
static bool plan_admit(struct plan_state *state, uint32_t i, uint64_t *pages)
{
    const struct scheduler_sequence *sequence = &state->input->waiting[i];
    struct scheduler_grant *grant = &state->grants[state->input->running_count + i];
    uint32_t whole = plan_missing_whole(state, sequence);
    if (*pages < whole)
        return false;
    plan_grant(state, state->input->running_count + i, sequence);
    if (grant->rows == 0)
        return false;
    *pages -= whole < *pages ? whole + 1 : whole; /* and one page of growth */
    grant->act = SCHEDULER_ADMIT;
    state->plan->admitted++;
    return true;
}

/* A batch is formed: all that wait come in, and get their rows as those that are paused do. */
static void plan_admit_together(struct plan_state *state)
{
    const struct scheduler_input *input = state->input;
    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        if (!sequence->is_throttled &&
            (input->mode == SCHEDULER_STATIC || !plan_is_decode(sequence)))
            return;
    }
    uint64_t pages = plan_pages_available(state);
    bool has_room = true;
    for (uint32_t i = 0; i < input->waiting_count && i < plan_places(input); i++) {
        struct scheduler_grant *grant = &state->grants[input->running_count + i];
        has_room = has_room && plan_admit(state, i, &pages);
        if (has_room)
            continue;
        grant->act = SCHEDULER_ADMIT;
        state->plan->admitted++;
    }
}

static void plan_admissions(struct plan_state *state)
{
    const struct scheduler_input *input = state->input;
    if (input->mode != SCHEDULER_CONTINUOUS) {
        plan_admit_together(state);
        return;
    }
    uint64_t pages = plan_pages_available(state);
    for (uint32_t i = 0; i < input->waiting_count && state->plan->admitted < plan_places(input);
         i++)
        if (!plan_admit(state, i, &pages))
            return;
}

void scheduler_plan(const struct scheduler_input *input, struct scheduler_plan *plan,
                    struct scheduler_grant *grants)
{
    *plan = (struct scheduler_plan){0};
    struct plan_state state = {
        .input = input,
        .plan = plan,
        .grants = grants,
        .pages_available = input->pages_available,
        .rows_left = input->rows_max,
        .logit_rows_left = input->logit_rows_max,
        .us_left = input->budget_us - input->cost.fixed_us,
    };
    for (uint32_t i = 0; i < input->running_count + input->waiting_count; i++)
        grants[i] = (struct scheduler_grant){0};

    /* While the oldest is paused, younger ones take no page before it: those that are available may
     * be the ones that the cache has for it, and would go to them one by one. */
    bool is_oldest = true;
    bool is_oldest_paused = false;
    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        ASSERT(sequence->computed < sequence->tokens);
        ASSERT(sequence->logits_from < sequence->tokens);
        ASSERT((uint64_t)(sequence->pages > 0 ? sequence->pages : sequence->found_pages) *
                   input->page_tokens >=
               sequence->computed);
        if (sequence->is_throttled || grants[i].act == SCHEDULER_PAUSE)
            continue;
        if (plan_is_decode(sequence) &&
            !(is_oldest_paused && plan_missing(&state, sequence, 1) > 0))
            plan_grant(&state, i, sequence);
        is_oldest_paused = is_oldest_paused || (is_oldest && sequence->pages == 0);
        is_oldest = false;
    }
    if (plan_prefills(&state))
        plan_admissions(&state);
}
