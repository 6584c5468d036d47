/* step_token: from a row of logits to the next token, its text and its end.
 *
 * Owns:     nothing; it advances the sequences of the batch.
 * Thread:   engine thread only.
 * Cost:     O(1) a token; O(vocabulary) with top log-probabilities.
 * Not here: the forward pass (model), choosing (step_choose), what may be shown (text_stream).
 */
#pragma once

#include "engine/step.h"

/* The rows of one part of the batch have been computed: `logits` are the batch's. */
void step_token_results(struct step *step, const struct step_part *part, const float *logits);
