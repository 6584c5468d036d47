/* draft_read: a draft model reads the texts of sequences and guesses their next tokens.
 *
 * Owns:     nothing; it fills the draft model's pages.
 * Thread:   engine thread only.
 * Cost:     as draft_guess says; no allocation.
 * Not here: one pass of guesses (draft_guess), opening the model (draft_model).
 */
#pragma once

#include "engine/draft/draft_model_state.h"

/* Writes guesses behind the tokens of each sequence, which have room for them. `drawer` is the
 * step's, of which nothing is asked yet. Of texts that the model has not followed it reads
 * `read_most` tokens; who waits for more has no guess yet. */
void draft_read_guess(struct draft_model *draft, struct drawer *drawer,
                      struct draft_guess_ask *asks, uint32_t count, uint32_t read_most);

/* Of the last guesses of a place only those before token `true_count` were right. */
void draft_read_judged(struct draft_model *draft, uint32_t place, uint32_t true_count);
