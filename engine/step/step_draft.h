/* step_draft: which sequences of a step guess ahead, and what becomes of it.
 *
 * Owns:     the index of each place's text (draft_lookup), and how often its guesses were right.
 * Thread:   engine thread only.
 * Cost:     O(sequences with rows) a step, O(1) a new token; no allocation after step_draft_init.
 * Not here: the guesses themselves (draft_lookup, draft_guess), their judgement (step_token).
 *
 *     tokens   [prompt … | generated … t] g1 g2 g3     g: guesses, behind token_count
 *     rows                          [t] [g1][g2][g3]   each gives the logits behind it
 *     judged                         a   b   c   d     a = g1 and b = g2, but c ≠ g3: the step has
 *                                                      told a, b and c; g3's row was for nothing
 *
 * A guess is right when it is the very token that would have been drawn there, by the same noise:
 * so text, log-probabilities and ends are those without guesses, bit by bit. It takes nothing from
 * anybody: rows, pages and room that the plan has left free, and only where the step is predicted
 * to give more tokens in its time than without. Until it is right it is no token: no account, tree,
 * host page or client has seen it. A draft model first reads the text, in company no faster than
 * STEP_DRAFT_ROWS_MAX tokens a step.
 */
#pragma once

#include "engine/step/step_state.h"

/* NO_MEMORY. */
enum status step_draft_init(struct step_draft *draft, uint32_t places);
/* So that the model's first `layers` layers guess. NO_MEMORY. */
enum status step_draft_init_exit(struct step *step, uint32_t layers);
void step_draft_deinit(struct step_draft *draft);

/* All planned rows have their pages: sets `drafts` of the first `parts` parts, and takes free pages
 * for them. `limit_us` is what the step may take, little more than without guesses in any case; 0 =
 * any time. */
void step_draft_plan(struct step *step, uint32_t parts, double limit_us);

/* Of `drafted` guesses of a sequence the first `accepted` were right; it may have ended. */
void step_draft_judged(struct step *step, uint32_t index, uint32_t drafted, uint32_t accepted);
