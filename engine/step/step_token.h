/* step_token: from a row of logits to the next token, its text and its end.
 *
 * Owns:     nothing; it advances the sequences of the batch.
 * Thread:   engine thread only.
 * Cost:     O(1) a token; O(vocabulary) with top log-probabilities.
 * Not here: the forward pass (model), drawing (drawer), what may be shown (text_stream).
 */
#pragma once

#include "engine/step/step_state.h"

/* The rows of one part of the batch have been computed and its tokens drawn. */
void step_token_results(struct step *step, const struct step_part *part);
