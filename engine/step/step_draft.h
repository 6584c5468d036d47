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

#include <stdint.h>

#include "config/base/status.h"
#include "engine/draft/draft_guess.h"
#include "engine/draft/draft_lookup.h"

struct step;

/* No step with guesses has more rows: with 16 the weights are no longer what a step waits for, and
 * each more costs its whole time (SmolLM2-135M: 16 rows take 5.5 times as long as one). */
enum { STEP_DRAFT_ROWS_MAX = 16 };

_Static_assert((int)DRAFT_GUESS_MOST == (int)DRAFT_LOOKUP_MOST, "one bound for all who guess");

struct step_draft_place {
    struct draft_lookup lookup;
    uint64_t serial; /* of the sequence that it is about */
    uint32_t told;   /* tokens when it guessed */
    double rate;     /* of guesses that were right, lately */
};

struct step_draft {
    struct step_draft_place *places; /* [places]; NULL: nobody guesses */
    uint32_t *entries;               /* [places][DRAFT_LOOKUP_NUMBERS] */
    struct draft_guess exit;         /* ENGINE_SPECULATION_EXIT */
    struct draft_guess_ask *asks;    /* [STEP_DRAFT_ROWS_MAX] of this step, to a model */
    int64_t model_us;                /* that it took in this step */
    double guess_us;                 /* that it takes for a guess of each who guesses, lately */
    double token_us; /* what a right guess saves in this step; 0 = not known, or nobody guessed */
    uint64_t accepted, rejected;
};

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
