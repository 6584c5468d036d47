/* scheduler_take: the state of a plan, and whose pages are taken for whom.
 *
 * Owns:     nothing; the state of one plan.
 * Thread:   any; pure.
 * Cost:     O(sequences) a call.
 * Not here: which sequence goes next (scheduler_turn), what it gets (scheduler).
 *
 * Pages are taken first from the available ones, then from victims, then from those protected for
 * swapped-out sequences. A victim has no rows in this step. Victims are chosen from the lowest
 * class first; in a class, throttled sequences first, then those of clients that are over, then
 * those not resumed lately, then those of the client with the most service, then the least
 * computed; the class's oldest comes last.
 *
 * From its own class a sequence takes only from throttled and younger sequences, from clients that
 * are over when its own is not, and from clients that hold more than their part of all pages when
 * its own holds less (scheduler_take_has_claim). A sequence that was admitted or resumed lately is
 * no victim of its own class, unless its client has reached its limit. Each lower class keeps its
 * oldest sequence with pages as long as that has no more than the floor's share of all pages, or an
 * eighth of them; if the taker does not fit beside that, the class keeps it for a quantum only.
 */
#pragma once

#include "engine/scheduler/scheduler_types.h"

enum { SCHEDULER_NONE = UINT32_MAX };

/* A sequence of a lower class is kept up to this share of all pages, when its floor is smaller. */
enum { SCHEDULER_FLOOR_ONE = 8 };

struct scheduler_state {
    const struct scheduler_input *input;
    struct scheduler_fair *fair;
    struct scheduler_plan *plan;
    struct scheduler_grant *grants;
    bool is_plain;   /* no classes, no clients */
    bool is_floor;   /* the floors are being served */
    bool is_relaxed; /* no sequence could go on: the rules that separate classes are dropped */
    uint32_t units_available;
    uint32_t units_protected;
    uint32_t floor_units; /* of each lower class with work */
    uint32_t rows_left;
    uint32_t logit_rows_left;
    uint32_t computing; /* sequences with rows */
    bool has_budget;
    double us_left;
    double us_more;        /* time left for first prompts only */
    double shared_left;    /* for decodes, when plan->is_shared */
    uint32_t shared_rows;  /* decodes counted against it */
    bool has_chunk;        /* some prompt has rows */
    bool has_urgent_chunk; /* a prompt of class realtime has */
    bool has_first_chunk;  /* of its client's only sequence, in the current band */
    bool is_blocked;       /* a sequence waits for pages: none after it is admitted or resumed */
    uint32_t turns;        /* grants[0 … turns-1].turn: those not throttled, in order */
    /* By class: the oldest that is not throttled, and the oldest of those with pages. */
    uint32_t first[SERVICE_CLASS_COUNT];
    uint32_t first_holder[SERVICE_CLASS_COUNT];
    uint32_t held[SERVICE_CLASS_COUNT];    /* slots of sequences that the class has */
    uint64_t weights[SERVICE_CLASS_COUNT]; /* sum over the clients of the plan */
};

static inline const struct scheduler_sequence *scheduler_at(const struct scheduler_state *state,
                                                            uint32_t index)
{
    const struct scheduler_input *input = state->input;
    return index < input->running_count ? &input->running[index]
                                        : &input->waiting[index - input->running_count];
}

/* The account of a sequence; not in plain modes. */
static inline struct scheduler_client *scheduler_client_of(const struct scheduler_state *state,
                                                           uint32_t index)
{
    return &state->fair->clients[scheduler_at(state, index)->client];
}

/* Pages that a sequence has, or would have after taking what the cache or host memory
 * has for it. */
static inline uint32_t scheduler_pages(const struct scheduler_sequence *sequence)
{
    return sequence->pages > 0 ? sequence->pages : sequence->found_pages;
}

/* Available units that taking those would use. */
static inline uint32_t scheduler_found_cost(const struct scheduler_sequence *sequence)
{
    return sequence->pages > 0 ? 0 : sequence->found_cost;
}

/* Units of a page that a row is written to. */
static inline uint32_t scheduler_page_units(const struct scheduler_state *state)
{
    return 1 + state->input->window_units;
}

/* Units that a sequence holds. */
static inline uint32_t scheduler_units(const struct scheduler_state *state,
                                       const struct scheduler_sequence *sequence)
{
    return sequence->pages > 0
               ? sequence->pages + sequence->window_pages * state->input->window_units
               : 0;
}

static inline enum service_class scheduler_class(const struct scheduler_state *state,
                                                 uint32_t index)
{
    return state->is_plain ? SERVICE_CLASS_REALTIME : scheduler_at(state, index)->service_class;
}

/* Whether its client is over. False for a prompt that runs in a more urgent class than its own,
 * because of a follower. */
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

/* Units that the next `rows` rows of a sequence take from the available ones. */
uint32_t scheduler_take_missing(const struct scheduler_state *state, uint32_t index, uint32_t rows);
/* The most that it takes until it has its next token, computed in chunks: pages that leave its
 * window meanwhile give their window units back. */
uint32_t scheduler_take_missing_whole(const struct scheduler_state *state, uint32_t index);

/* What the next `rows` rows of a sequence will be charged, divided by the weight. */
double scheduler_take_charge(const struct scheduler_state *state, uint32_t index, uint32_t rows);
/* Whether its next rows would take a client that is over beyond its limit. Its sequences are then
 * not protected any more, and those of other clients that are over go before them. */
bool scheduler_take_is_spent(const struct scheduler_state *state, uint32_t index);

/* Whether its client, with what the sequence needs, holds no more than its part of all units, which
 * are divided by weight among the clients of its class. Not in plain modes. */
bool scheduler_take_is_within(const struct scheduler_state *state, uint32_t index);
/* Whether a sequence may take pages of clients of its class that hold more than their part: its own
 * client is within its part, and the sequence has pages, or its client has none. */
bool scheduler_take_has_claim(const struct scheduler_state *state, uint32_t index);

/* Units that sequence `index` may use now: available ones, those of possible victims, protected. */
uint64_t scheduler_take_reachable(const struct scheduler_state *state, uint32_t index);
/* Preempts victims until `units` are available, no more than needed; false, without any preemption,
 * when that many are not reachable. */
bool scheduler_take(struct scheduler_state *state, uint32_t index, uint32_t units);

/* Whether the units for `rows` rows of a floor are within the class's share, or else leave
 * the running sequences of more urgent classes what they need in this step: a floor
 * promises rows only. */
bool scheduler_take_is_left(const struct scheduler_state *state, uint32_t index, uint32_t rows);

/* Preempts one victim even if no unit becomes available by it: victims may share all their pages
 * with each other, and units_back counts those for none. The next plan sees the result. */
bool scheduler_take_any(struct scheduler_state *state, uint32_t index);

/* Units that a sequence without pages may count on: the reachable ones, without what the remaining
 * sequences will need (prompts being computed, one page of growth each), what lower classes' floors
 * keep, and what more urgent classes have lately held at once. */
uint64_t scheduler_take_room(const struct scheduler_state *state, uint32_t index);
