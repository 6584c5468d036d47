/* step_prefix: how sequences and requests use the prefix cache, and each other's prompts.
 *
 * Owns:     nothing; results of lookups are in tickets and sequences, pages in the cache.
 * Thread:   engine thread only.
 * Cost:     a lookup is kept for some steps, and STEP_PREFIX_FIND_TOKENS bounds the lookups of a
 *           step; inserting is O(pages filled). To find a fill to follow, a request is compared
 *           with each fill of its domain, by one page first.
 * Not here: trees and eviction (prefix_cache), which request goes next (scheduler), the end of a
 *           published prompt (step_unpublish).
 *
 * A fill is a running sequence that is still in its prompt. A request of the same domain *follows*
 * a fill when both prompts agree for a page or more beyond what the cache has. The follower waits
 * without holding anything until the fill has computed what they share or is gone, and for at most
 * LIMIT_FILL_STEPS steps.
 */
#pragma once

#include "engine/step/step_state.h"

/* Tokens of prompts that one step looks up: 4,096 pages of 16 tokens, under half a millisecond. The
 * first prompt of each class is looked up in any case, or one class could shut another out. A
 * result is used for some steps although each step changes the cache: only the plan uses it, and
 * admission takes what the cache has then. */
enum { STEP_PREFIX_FIND_TOKENS = 65536, STEP_PREFIX_FIND_STEPS = 8 };

enum step_prefix_wait {
    STEP_PREFIX_READY,     /* ticket->found says what it would find */
    STEP_PREFIX_FOLLOWING, /* another request computes its prefix */
    STEP_PREFIX_UNKNOWN,   /* this step may look up no more */
};

/* Whether sequences of a domain use the cache: it is on, and the domain is not the empty one. */
bool step_prefix_has_cache(const struct step *step, const struct engine_domain *domain);
/* Called before the first step_prefix_look of a step. */
void step_prefix_begin(struct step *step);
/* Resets what may be looked up. */
void step_prefix_begin_finds(struct step *step);
/* Whether a waiting request is a candidate, after those already in step->heads. */
enum step_prefix_wait step_prefix_look(struct step *step, uint32_t slot);
/* Whether the other choices of a candidate should wait until the first has computed the prompt. */
bool step_prefix_follows_itself(const struct step *step, const struct ticket *ticket);
/* Sets ticket->found for a waiting request; false when this step may look up no more. */
bool step_prefix_find(struct step *step, struct ticket *ticket);
/* Sets sequence->found for a preempted sequence; nothing found when the step may look
 * up no more. */
void step_prefix_look_again(struct step *step, struct sequence *sequence);

/* A sequence without pages takes what the cache has; counted once for each request. */
void step_prefix_take(struct step *step, struct sequence *sequence);
/* Gives the pages that are full since the last call to the cache. */
void step_prefix_insert(struct step *step, struct sequence *sequence);
/* Called when rows from `before` on are computed: gives full pages to the cache, keeps tails, and
 * gives up the window units that no later row reads. */
void step_prefix_advance(struct step *step, struct sequence *sequence, uint32_t before);
/* Called before a sequence releases its pages for good: gives its partial page to the cache, and
 * keeps the window behind its end. */
void step_prefix_end(struct step *step, struct sequence *sequence);

/* LIMIT when a published prompt, with those being computed, would exceed pin_percent. */
enum status step_prefix_check_pin(struct step *step, const struct ticket *ticket);
/* Pins the whole prompt of a sequence that has computed it; false when there is no room. */
bool step_prefix_pin(struct step *step, struct sequence *sequence);
