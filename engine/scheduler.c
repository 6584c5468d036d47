#include "engine/scheduler.h"

#include <stddef.h>

#include "config/base/status.h"

enum { NOBODY = UINT32_MAX };

struct plan_state {
    const struct scheduler_input *input;
    struct scheduler_plan *plan;
    struct scheduler_grant *grants;
    uint32_t pages_free;
    uint32_t rows_left;
    uint32_t logit_rows_left;
};

static uint32_t plan_pages(const struct plan_state *state, uint64_t tokens)
{
    uint32_t page_tokens = state->input->page_tokens;
    return (uint32_t)((tokens + page_tokens - 1) / page_tokens);
}

static bool plan_holds(const struct plan_state *state, uint32_t index)
{
    return state->input->running[index].pages > 0 && !state->grants[index].drop;
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
    state->grants[victim] = (struct scheduler_grant){.rows = 0, .drop = true};
    state->pages_free += state->input->running[victim].pages;
    state->plan->dropped++;
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
    return rows < rows_allowed ? rows : (uint32_t)rows_allowed;
}

/* Grants sequence `index` as many rows as budgets and pages allow. `held` is how many pages it has
 * now. Victims are taken only where `may_take`. */
static void plan_grant(struct plan_state *state, uint32_t index,
                       const struct scheduler_sequence *sequence, bool may_take)
{
    uint32_t rows = plan_rows_wanted(state, sequence);
    if (rows == 0)
        return;
    uint32_t held = sequence->pages;
    uint32_t wanted = plan_pages(state, (uint64_t)sequence->computed + rows);
    uint32_t missing = wanted > held ? wanted - held : 0;
    while (may_take && missing > state->pages_free) {
        uint32_t victim = plan_victim(state, index);
        if (victim == NOBODY)
            break;
        plan_drop(state, victim);
    }
    if (missing > state->pages_free) {
        missing = state->pages_free;
        uint64_t room = (uint64_t)(held + missing) * state->input->page_tokens;
        if (room <= sequence->computed)
            return;
        rows = (uint32_t)(room - sequence->computed);
    }
    state->pages_free -= missing;
    state->grants[index].rows = rows;
    state->rows_left -= rows;
    state->plan->rows += rows;
    uint32_t end = sequence->computed + rows;
    if (end > sequence->logits_from) {
        uint32_t from =
            sequence->logits_from > sequence->computed ? sequence->logits_from : sequence->computed;
        state->logit_rows_left -= end - from;
        state->plan->logit_rows += end - from;
    }
}

/* Pages that a sequence without any may count on: the free ones and those of the throttled, less
 * what prompts under way still need, less one page of growth for each that runs. */
static uint64_t plan_pages_available(const struct plan_state *state)
{
    const struct scheduler_input *input = state->input;
    uint64_t available = state->pages_free;
    uint64_t promised = 0;
    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        if (!plan_holds(state, i) && state->grants[i].rows == 0)
            continue;
        if (sequence->is_throttled) {
            available += sequence->pages;
            continue;
        }
        uint32_t end = plan_pages(state, (uint64_t)sequence->computed + state->grants[i].rows);
        uint32_t held = end > sequence->pages ? end : sequence->pages;
        uint32_t whole = plan_pages(state, (uint64_t)sequence->tokens + 1);
        promised += 1 + (whole > held ? whole - held : 0);
    }
    for (uint32_t i = 0; i < state->plan->admitted; i++) {
        uint32_t rows = state->grants[input->running_count + i].rows;
        promised +=
            1 + plan_pages(state, (uint64_t)input->waiting[i].tokens + 1) - plan_pages(state, rows);
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
        if (grant->drop)
            return false;
        if (grant->rows == 0) {
            if (sequence->pages == 0 && !is_oldest &&
                plan_pages_available(state) < plan_pages(state, (uint64_t)sequence->tokens + 1))
                return false; /* whoever is younger stays behind it */
            plan_grant(state, i, sequence, true);
            if (sequence->pages == 0 && grant->rows == 0)
                return false;
        }
        is_oldest = false;
    }
    return true;
}

static void plan_admissions(struct plan_state *state)
{
    const struct scheduler_input *input = state->input;
    while (state->plan->admitted < input->waiting_count &&
           state->plan->admitted < input->sequences_free) {
        const struct scheduler_sequence *sequence = &input->waiting[state->plan->admitted];
        uint32_t index = input->running_count + state->plan->admitted;
        if (plan_pages_available(state) < plan_pages(state, (uint64_t)sequence->tokens + 1))
            return;
        plan_grant(state, index, sequence, true);
        if (state->grants[index].rows == 0)
            return;
        state->plan->admitted++;
    }
}

void scheduler_plan(const struct scheduler_input *input, struct scheduler_plan *plan,
                    struct scheduler_grant *grants)
{
    *plan = (struct scheduler_plan){0};
    struct plan_state state = {
        .input = input,
        .plan = plan,
        .grants = grants,
        .pages_free = input->pages_free,
        .rows_left = input->rows_max,
        .logit_rows_left = input->logit_rows_max,
    };
    uint32_t admissible =
        input->waiting_count < input->sequences_free ? input->waiting_count : input->sequences_free;
    for (uint32_t i = 0; i < input->running_count + admissible; i++)
        grants[i] = (struct scheduler_grant){0};

    for (uint32_t i = 0; i < input->running_count; i++) {
        const struct scheduler_sequence *sequence = &input->running[i];
        ASSERT(sequence->computed < sequence->tokens);
        ASSERT(sequence->logits_from < sequence->tokens);
        ASSERT((uint64_t)sequence->pages * input->page_tokens >= sequence->computed);
        if (sequence->tokens - sequence->computed == 1 && sequence->pages > 0 &&
            !sequence->is_throttled && !grants[i].drop)
            plan_grant(&state, i, sequence, true);
    }
    if (plan_prefills(&state))
        plan_admissions(&state);
}
