/* draft_model_state: what a draft model consists of, and which sequences its pages hold.
 *
 * Owns:     nothing by itself: draft_model makes and frees it.
 * Thread:   engine thread only.
 * Cost:     –
 * Not here: opening it (draft_model), drafting (draft_read).
 */
#pragma once

#include "engine/draft/draft_guess.h"

enum {
    /* Rows of one pass. A long new sequence is read in several steps, without drafts; in many more
     * while other clients compute or wait (step_draft). */
    DRAFT_MODEL_ROWS = 256,
    /* Full contexts that its pages hold at once. */
    DRAFT_MODEL_CONTEXTS = 4,
};

struct draft_model_place {
    uint64_t serial;   /* of the sequence whose tokens are in the pages */
    uint64_t used;     /* the turn in which it was last asked for */
    uint32_t computed; /* tokens that are in pages */
    uint32_t page_count;
    page_id *pages; /* [pages of a full context] */
};

struct draft_model {
    struct model *model;
    struct kv_pool pool;
    struct draft_guess guess;
    struct draft_model_place *places; /* [place_count] */
    uint32_t place_count;
    page_id *pages;
    uint64_t turn;      /* calls of draft_read_guess so far */
    uint32_t read_left; /* tokens of new sequences that this turn may still read */
};
