/* step_draft_mask: draft tokens of constrained answers: those that the grammar refuses are dropped,
 * and the others have a mask each.
 *
 * Owns:     nothing; the masks of a step lie in step_draft.
 * Thread:   engine thread only.
 * Cost:     at most LIMIT_GRAMMAR_DRAFT_FUEL nodes or items for each draft token. A grammar whose
 *           last mask took as many steps of rows gets no drafts.
 * Not here: which sequences speculate (step_draft), the mask of the planned row (step_mask).
 *
 *     tokens   [… t] d1 d2 │ d3       d3 is refused, or the place behind it has no mask in time
 *     masks     m0   m1 m2            m0: the guard's own; a draft token is sampled under the one
 *                                     before it, as it would be without drafts
 *
 * Behind a draft token that is kept, a token is sampled without speculation too. So a draft token
 * is dropped when the answer is over behind it, or when text is forced there.
 */
#pragma once

#include "engine/step/step_state.h"

/* Looks at the draft tokens of the part, which stand behind those of its sequence. Keeps the first
 * ones that may stand there, and writes their masks. The guard stays where it is. Parts without a
 * guard are left as they are. */
void step_draft_mask_make(struct step *step, struct step_part *part);

/* Whether a constrained sequence may have drafts in this step: its own mask is ready, no forced
 * text is left, and masks of its grammar take little. */
bool step_draft_mask_may(const struct step *step, const struct sequence *sequence);

/* The mask of the row `ahead` > 0 behind the planned ones. */
const uint32_t *step_draft_mask_of(const struct step *step, const struct step_part *part,
                                   uint32_t ahead);
