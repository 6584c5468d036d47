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

/* Asks for the first `parts` parts of the batch, before the forward pass. */
void step_choose_ask(struct step *step, uint32_t parts);
