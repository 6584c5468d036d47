/* step_choose: asks the drawer for what a step needs of its rows: tokens and log-probabilities.
 *
 * Owns:     nothing; it asks the step's drawer.
 * Thread:   engine thread only.
 * Cost:     O(rows with logits); no allocation.
 * Not here: sampling (drawer), what becomes of a token (step_token).
 *
 * The row of a draft token is sampled as if the draft were right. If it is wrong, the result of the
 * row is never read.
 */
#pragma once

#include <stdint.h>

struct step;

/* Tokens that would end an answer too early. */
struct step_choose_bans {
    const uint32_t *tokens; /* in the step's memory, the same as long as the sequence runs */
    uint32_t count;
    uint32_t before; /* they are banned while fewer tokens than this are generated */
};

/* The bans of the sequence in slot `index`. */
struct step_choose_bans step_choose_bans(struct step *step, uint32_t index);
/* Asks for the first `parts` parts of the batch, before the forward pass. */
void step_choose_ask(struct step *step, uint32_t parts);
