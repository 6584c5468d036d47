/* step_draft_state: what step_draft keeps of each sequence between steps, and of one step.
 *
 * Owns:     nothing by itself: step_draft makes and frees it.
 * Thread:   engine thread only.
 * Cost:     –
 * Not here: which sequences guess (step_draft).
 */
#pragma once

#include <stdint.h>

#include "engine/draft/draft_guess.h"
#include "engine/draft/draft_lookup.h"

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
