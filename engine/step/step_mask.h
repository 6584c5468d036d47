/* step_mask: the masks of constrained rows, before the rows are computed.
 *
 * Owns:     nothing; masks belong to the guards of requests.
 * Thread:   engine thread; the kernels' threads make the masks meanwhile.
 * Cost:     at most LIMIT_GRAMMAR_MASK_FUEL nodes or items for each row and step, over all threads.
 *           Without constrained rows, a look at each part.
 * Not here: what a mask is (grammar_mask), sampling under it (sampler).
 *
 * A mask depends on the tokens so far alone, so it is made before the forward pass. A row whose
 * mask is not ready skips the step, and its walk goes on in the next: the batch never waits for a
 * grammar. A row's bits do not depend on the step in which it is computed, so nothing changes but
 * time.
 */
#pragma once

#include "engine/step/step_state.h"

/* Finds forced tokens, and makes the masks that the parts need. Takes the last row from parts that
 * need a mask that is not ready. Returns how many parts are left. */
uint32_t step_mask_make(struct step *step, uint32_t parts);

/* Completes the mask of the run's place, `ahead` tokens behind those of the sequence: allows the
 * model's end tokens where the text may end, and forbids what would end it before it has tokens_min
 * tokens, unless the grammar allows nothing more. Returns whether the mask allows anything. */
bool step_mask_allow_ends(const struct step *step, const struct sequence *sequence, uint32_t ahead,
                          struct grammar_run *run, uint32_t *mask);
