/* step_bans: the tokens that a sequence may not sample yet, because they would end its answer.
 *
 * They are banned before the answer has `min_tokens` tokens, and in reasoning that comes before
 * what a constraint says. Where a grammar holds, its mask has a rule of its own (step_mask), but
 * the list stays the same for all tokens of a sequence, because the drawer keeps it.
 *
 * Owns:     nothing; it writes to the memory of the step.
 * Thread:   engine thread only.
 * Cost:     O(end tokens and stop tokens); no allocation.
 * Not here: how bans are applied (sampler, drawer).
 */
#pragma once

#include <stdint.h>

struct step;

struct step_bans {
    const uint32_t *tokens; /* in the step's memory; NULL = none */
    uint32_t count;
    uint32_t before; /* they are banned while fewer tokens than this are generated */
};

/* The bans of the sequence in slot `index`. Its tokens are valid until the next step. */
struct step_bans step_bans_of(struct step *step, uint32_t index);
