/* step_force: text that a grammar forces, as tokens that nobody samples.
 *
 * Owns:     nothing; the tokens stand behind those of their sequence until they are told.
 * Thread:   the engine thread; step_force_find may run on a compute thread.
 * Cost:     step_force_find as grammar_force says, once for each sampled token; it calls the
 *           tokenizer where text is forced. step_force_plan O(parts).
 * Not here: the forced text and its tokens (grammar_force), masks (step_mask), rows of prompts
 *           (scheduler).
 *
 *     tokens   [prompt … | generated … t] f1 f2 f3    f: forced tokens, behind token_count
 *     rows                           [t] [f1][f2][f3]
 *     told                            f1  f2  f3  a   a: sampled from the row of f3, under a mask
 *
 * Where the grammar leaves one text, its tokens follow whatever the model would have preferred.
 * They are a rule of the constraint and depend on the tokens so far alone, so no option turns them
 * off. The rows of forced tokens share a step as far as there is room behind the planned rows. The
 * other forced tokens follow in later steps, at least one in each step, so what a step has room for
 * changes time and never a bit. A forced token is told, counted and charged as a sampled one. Its
 * row of logits is computed only for a request that wants log-probabilities.
 */
#pragma once

#include "engine/step/step_state.h"

/* Finds the forced tokens of the place where the guard of `sequence` stands, writes them behind the
 * tokens of the sequence, and moves the guard behind them. Called once for each place. `thread` is
 * the number of the calling thread, below DRAWER_THREADS; the engine thread's is 0. */
void step_force_find(const struct step *step, struct sequence *sequence, struct guard *guard,
                     uint32_t thread);

/* Whether text is forced behind the `ahead` tokens that stand behind those of the sequence. The run
 * of `guard` stands there. */
bool step_force_is_next(const struct step *step, const struct sequence *sequence,
                        const struct guard *guard, uint32_t ahead);

/* Called when all planned rows have their pages and masks. Sets `forced` of the first `parts` parts
 * and takes free pages for them. Sequences with forced text have equal shares of the room; what one
 * does not need is left to those after it. `limit_us` bounds the whole step (step_load_limit_us);
 * 0 = no bound. */
void step_force_plan(struct step *step, uint32_t parts, double limit_us);

/* The first row of a part that needs logits. */
uint32_t step_force_logits_from(const struct step *step, const struct sequence *sequence);
