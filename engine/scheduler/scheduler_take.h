/* scheduler_take: a plan under way, and whose pages are taken for whom.
 *
 * Owns:     nothing; the state of one plan.
 * Thread:   any; pure.
 * Cost:     O(sequences) a call.
 * Not here: who goes next (scheduler_turn), what they get (scheduler).
 *
 * Taken are first what nobody holds, then the pages of victims, then those protected for paused
 * sequences. A victim is of the lowest class, throttled before others, of a client that is over, of
 * the client that has had most, least computed; it has no rows in this step. From an equal class
 * only the throttled, the younger, and those over when the taker is not; none that came (back)
 * lately, unless its client has had all that it may. Each lower class keeps its oldest sequence as
 * long as that has no more than the floor's part of the pages, or an eighth of them; for a quantum
 * when the taker has no room beside so much.
 */
#pragma once

#include "engine/scheduler/scheduler_types.h"

enum { SCHEDULER_NONE = UINT32_MAX };

/* Of all pages one sequence of a lower class keeps this part at most, when its floor is less. */
enum { SCHEDULER_FLOOR_ONE = 8 };

struct scheduler_state {
    const struct scheduler_input *input;
    struct scheduler_fair *fair;
    struct scheduler_plan *plan;
    struct scheduler_grant *grants;
    bool is_plain;   /* no classes, no clients */
    bool is_floor;   /* what floors ask is given out */
    bool is_relaxed; /* nobody could go on: what keeps the classes apart is dropped */
    uint32_t pages_available;
    uint32_t pages_protected;
    uint32_t floor_pages; /* of each lower class with work */
    uint32_t rows_left;
    uint32_t logit_rows_left;
    uint32_t computing; /* sequences with rows */
    bool has_budget;
    double us_left;
    double us_more;        /* for first prompts */
    double shared_left;    /* for decodes, when plan->is_shared */
    uint32_t shared_rows;  /* decodes that were counted */
    bool has_chunk;        /* of a prompt */
    bool has_urgent_chunk; /* of a realtime one */
    bool has_first_chunk;  /* of its client's only sequence, in the band under way */
    bool is_blocked;       /* somebody waits for pages: no one after it comes in or comes back */
    uint32_t turns;        /* grants[0 … turns-1].turn: those not throttled, in order */
    /* By class: the oldest that is not throttled, and the oldest of those with pages. */
    uint32_t first[SERVICE_CLASS_COUNT];
    uint32_t first_holder[SERVICE_CLASS_COUNT];
    uint32_t held[SERVICE_CLASS_COUNT]; /* places of the table */
};

static inline const struct scheduler_sequence *scheduler_at(const struct scheduler_state *state,
                                                            uint32_t index)
{
    const struct scheduler_input *input = state->input;
    return index < input->running_count ? &input->running[index]
                                        : &input->waiting[index - input->running_count];
}

/* Its account; not in plain modes. */
static inline struct scheduler_client *scheduler_client_of(const struct scheduler_state *state,
                                                           uint32_t index)
{
    return &state->fair->clients[scheduler_at(state, index)->client];
}

/* Pages that it has, or would have once it takes what the cache or the host pool has for it. */
static inline uint32_t scheduler_pages(const struct scheduler_sequence *sequence)
{
    return sequence->pages > 0 ? sequence->pages : sequence->found_pages;
}

/* Available pages that it takes for those. */
static inline uint32_t scheduler_pages_cost(const struct scheduler_sequence *sequence)
{
    return sequence->pages > 0 ? 0 : sequence->found_cost;
}

static inline enum service_class scheduler_class(const struct scheduler_state *state,
                                                 uint32_t index)
{
    return state->is_plain ? SERVICE_CLASS_REALTIME : scheduler_at(state, index)->service_class;
}

/* Over in its own class; a prompt that runs in a more urgent one for who follows it is not. */
static inline bool scheduler_over(const struct scheduler_state *state, uint32_t index)
{
    if (state->is_plain)
        return false;
    const struct scheduler_client *client = scheduler_client_of(state, index);
    return client->is_over && client->service_class == scheduler_at(state, index)->service_class;
}

static inline bool scheduler_holds(const struct scheduler_state *state, uint32_t index)
{
    return scheduler_at(state, index)->pages > 0 && state->grants[index].act != SCHEDULER_PAUSE;
}

/* Pages that the next `rows` rows of a sequence take from the available ones. */
uint32_t scheduler_take_missing(const struct scheduler_state *state, uint32_t index, uint32_t rows);
/* The same until its next token has a place. */
uint32_t scheduler_take_missing_whole(const struct scheduler_state *state, uint32_t index);

/* What the next `rows` rows of a sequence will be charged, divided by the weight. */
double scheduler_take_charge(const struct scheduler_state *state, uint32_t index, uint32_t rows);
/* Whether with its next rows its client has more than it may while another wants: what binds its
 * equals binds no more, and who is over with less goes before it. */
bool scheduler_take_is_spent(const struct scheduler_state *state, uint32_t index);

/* Pages that sequence `index` may use now: available, of possible victims, protected. */
uint64_t scheduler_take_reachable(const struct scheduler_state *state, uint32_t index);
/* Pauses victims until `pages` are available, just enough of them; false, and nobody is paused,
 * when that many are not reachable. */
bool scheduler_take(struct scheduler_state *state, uint32_t index, uint32_t pages);

/* Whether the pages that `rows` rows of a floor take are of its class's part, or leave the running
 * ones of more urgent classes theirs in this step: a floor is rows. */
bool scheduler_take_is_left(const struct scheduler_state *state, uint32_t index, uint32_t rows);

/* Pauses one victim, whatever comes back: what victims share with each other counts for none, and
 * may be all there is. The next plan sees it. */
bool scheduler_take_any(struct scheduler_state *state, uint32_t index);

/* Pages that a sequence without any may count on: the reachable ones less what those who stay will
 * need (prompts under way, one page of growth each), what lower classes' floors keep, and what more
 * urgent classes have lately needed at once. */
uint64_t scheduler_take_room(const struct scheduler_state *state, uint32_t index);
