/* step_draft: which sequences of a step get draft tokens, and what becomes of them (speculation).
 *
 * Owns:     for each sequence slot an index of its tokens (draft_lookup) and its acceptance rate.
 * Thread:   engine thread only.
 * Cost:     O(sequences with rows) a step, O(1) a new token; no allocation after step_draft_init.
 * Not here: the draft tokens themselves (draft_lookup, draft_guess), verification (step_token).
 *
 *     tokens   [prompt … | generated … t] g1 g2 g3     g: draft tokens, after token_count
 *     rows                          [t] [g1][g2][g3]   each gives the logits of the next position
 *     sampled                        a   b   c   d     a = g1 and b = g2, but c ≠ g3: the step has
 *                                                      emitted a, b and c; g3's row was in vain
 *
 * A draft token is accepted when it is the very token that is sampled there, with the same noise.
 * So text, log-probabilities and ends equal those without speculation, bit by bit. Speculation
 * takes nothing from other sequences: it uses rows, pages and event slots that the plan has left
 * free, and only where the step is predicted to give more tokens in its time than without. A draft
 * token is in no account, tree, host page or event before it is accepted. A draft model has to read
 * the text first: while other clients compute or wait, at most STEP_DRAFT_ROWS_MAX tokens a step.
 */
#pragma once

#include "engine/step/step_state.h"

/* Makes room for `places` sequence slots, and for masks of `vocab` tokens. NO_MEMORY. */
enum status step_draft_init(struct step_draft *draft, uint32_t places, uint32_t vocab);
/* Lets the model's first `layers` layers propose the draft tokens. NO_MEMORY. */
enum status step_draft_init_exit(struct step *step, uint32_t layers);
void step_draft_deinit(struct step_draft *draft);

/* Called when all planned rows have their pages. Sets `drafts` of the first `parts` parts and takes
 * free pages for them. `limit_us` bounds the predicted time of the step (step_load_limit_us);
 * 0 = no bound. */
void step_draft_plan(struct step *step, uint32_t parts, double limit_us);

/* Of `drafted` draft tokens of a sequence the first `accepted` were accepted. The sequence
 * may have ended. */
void step_draft_judged(struct step *step, uint32_t index, uint32_t drafted, uint32_t accepted);
