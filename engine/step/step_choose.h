/* step_choose: which rows of a step draw a token, and what is told of the others.
 *
 * Owns:     nothing; it asks the step's drawer.
 * Thread:   engine thread only.
 * Cost:     O(rows that want logits); no allocation.
 * Not here: drawing (drawer), what becomes of a token (step_token).
 *
 * A row behind a guess is drawn as if the guess were right: when it is not, nobody asks for it.
 */
#pragma once

#include <stdint.h>

struct step;

/* Asks for the first `parts` parts, which are planned and of which nothing is told yet. */
void step_choose_ask(struct step *step, uint32_t parts);
