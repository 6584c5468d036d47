/* draft_read: a draft model reads the tokens of sequences and drafts the next ones.
 *
 * Owns:     nothing; it fills the draft model's pages.
 * Thread:   engine thread only.
 * Cost:     as draft_guess says; no allocation.
 * Not here: one pass (draft_guess), opening the model (draft_model).
 */
#pragma once

#include "engine/draft/draft_model_state.h"

/* Writes draft tokens after the tokens of each sequence, which need room for them. `drawer` is the
 * step's, before anything is asked of it. Of sequences that the model has not followed it reads at
 * most `read_most` tokens together; a sequence that needs more gets no drafts yet. */
void draft_read_guess(struct draft_model *draft, struct drawer *drawer,
                      struct draft_guess_ask *asks, uint32_t count, uint32_t read_most);

/* Of the sequence in slot `place`, only draft tokens before position `true_count` were accepted. */
void draft_read_judged(struct draft_model *draft, uint32_t place, uint32_t true_count);
