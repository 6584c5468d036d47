/* step_draft_state: what step_draft keeps of each sequence between steps, and of one step.
 *
 * Owns:     nothing by itself: step_draft makes and frees it.
 * Thread:   engine thread only.
 * Cost:     –
 * Not here: which sequences get drafts (step_draft).
 */
#pragma once

#include <stdint.h>

#include "engine/draft/draft_guess.h"
#include "engine/draft/draft_lookup.h"

/* A step with drafts has at most this many rows: beyond 16 rows the step no longer waits for the
 * weights, and each further row costs its whole time (SmolLM2-135M: 16 rows take 5.5 times as
 * long as one). */
enum { STEP_DRAFT_ROWS_MAX = 16 };

_Static_assert((int)DRAFT_GUESS_MOST == (int)DRAFT_LOOKUP_MOST, "all drafters have one bound");

struct step_draft_place {
    struct draft_lookup lookup;
    uint64_t serial; /* of the sequence in the slot that the fields are about */
    uint32_t told;   /* its tokens when the model last drafted */
    double rate;     /* moving average of accepted draft tokens, 0 to 1 */
};

struct step_draft {
    struct step_draft_place *places; /* [places]; NULL = no speculation */
    uint32_t *entries;               /* [places][DRAFT_LOOKUP_NUMBERS] */
    struct draft_guess exit;         /* ENGINE_SPECULATION_EXIT */
    struct draft_guess_ask *asks;    /* [STEP_DRAFT_ROWS_MAX] of this step, for a model */
    uint32_t *masks; /* [STEP_DRAFT_ROWS_MAX][mask_words] behind drafts of constrained answers */
    uint32_t mask_words; /* a bit for each token of the vocabulary */
    uint32_t mask_count; /* used in this step */
    int64_t model_us;    /* time of drafting in this step */
    double guess_us;     /* moving average of the time of one pass, a token for each sequence */
    double token_us; /* what an accepted token saves in this step; 0 = not known, or no drafts */
    uint64_t accepted, rejected;
};
