/* step_prefix: what sequences and requests have to do with the prefix cache, and with each other.
 *
 * Owns:     nothing; finds are kept on tickets and sequences, pages in the cache.
 * Thread:   engine thread only.
 * Cost:     a find is kept until the cache has changed, and STEP_PREFIX_FIND_TOKENS bounds what a
 *           step looks up; inserting is O(pages filled); a look for a leader is one page a pair.
 * Not here: trees and eviction (prefix_cache), who goes next (scheduler), the end of a published
 *           prompt (step_unpublish).
 *
 * A fill is a sequence that is still in its prompt. A request of the same domain whose prompt goes
 * on like that one's for a page or more beyond what the cache has *follows* it: it waits outside,
 * holding nothing, until the fill has computed what they share, is gone, or LIMIT_FILL_STEPS are
 * over.
 */
#pragma once

#include "engine/step/step_state.h"

/* Tokens of prompts that one step looks up: 4,096 pages, under half a millisecond; and the first of
 * each class, or those of one would keep another's out. What was found is good for some steps even
 * though the cache changes with each: it is for the plan, and whoever comes in takes what is there
 * then. */
enum { STEP_PREFIX_FIND_TOKENS = 65536, STEP_PREFIX_FIND_STEPS = 8 };

enum step_prefix_wait {
    STEP_PREFIX_READY,     /* ticket->found says what it would find */
    STEP_PREFIX_FOLLOWING, /* somebody else computes its prefix */
    STEP_PREFIX_UNKNOWN,   /* this step has looked up enough */
};

/* Whether what is computed for a domain goes to the cache. */
bool step_prefix_has_cache(const struct step *step, const struct engine_domain *domain);
/* Before the first look of a step. */
void step_prefix_begin(struct step *step);
/* What a step may look up is all left. */
void step_prefix_begin_finds(struct step *step);
/* Whether a waiting request is a candidate, after those already in step->candidates. */
enum step_prefix_wait step_prefix_look(struct step *step, uint32_t slot);
/* Whether the other choices of a candidate do better to wait until the first has its prompt. */
bool step_prefix_follows_itself(const struct step *step, const struct ticket *ticket);
/* ticket->found: what a waiting request would find; false when this step has looked up enough. */
bool step_prefix_find(struct step *step, struct ticket *ticket);
/* sequence->found: what a paused sequence would find. */
void step_prefix_look_again(struct step *step, struct sequence *sequence);

/* A sequence without pages gets what the cache has; counted once a request. */
void step_prefix_take(struct step *step, struct sequence *sequence);
/* More is computed than before: pages that are full now go to the cache. */
void step_prefix_insert(struct step *step, struct sequence *sequence);
/* Before a sequence lets go of its pages for good: the rest of its text goes to the cache too. */
void step_prefix_end(struct step *step, struct sequence *sequence);

/* LIMIT when a published prompt, with those under way, would go over the pin cap. */
enum status step_prefix_check_pin(struct step *step, const struct ticket *ticket);
/* Pins the whole prompt of a sequence that has computed it; false when there is no more room. */
bool step_prefix_pin(struct step *step, struct sequence *sequence);
