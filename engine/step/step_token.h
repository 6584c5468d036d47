/* step_token: from a row of logits to the next token, its text and the end of the sequence.
 *
 * Owns:     nothing; it advances the sequences of the batch.
 * Thread:   engine thread only.
 * Cost:     O(1) a token; O(vocabulary) with top log-probabilities.
 * Not here: the forward pass (model), sampling (drawer), which text may be shown (text_stream).
 */
#pragma once

#include "engine/step/step_state.h"

/* Takes the results of one part, after its rows are computed and its tokens sampled. */
void step_token_results(struct step *step, const struct step_part *part);

/* Gives a token of the answer, which comes after `previous`, to a budget of reasoning. */
void step_token_reason(const struct step *step, uint32_t previous, uint32_t token,
                       struct reasoning_budget *budget);
