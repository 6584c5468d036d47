/* draft_model_state: what a draft model consists of, and which texts its pages hold.
 *
 * Owns:     nothing by itself: draft_model makes and frees it.
 * Thread:   engine thread only.
 * Cost:     –
 * Not here: opening it (draft_model), its guesses (draft_read).
 */
#pragma once

#include "engine/draft/draft_guess.h"

enum {
    /* Rows of one pass: a text that is new to it takes several steps, without guesses; many more
     * in company (step_draft). */
    DRAFT_MODEL_ROWS = 256,
    /* Texts of a full context that it remembers at once. */
    DRAFT_MODEL_CONTEXTS = 4,
};

struct draft_model_place {
    uint64_t serial;   /* of the sequence whose text it is */
    uint64_t used;     /* the last turn */
    uint32_t computed; /* tokens of it that stand in pages */
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
    uint64_t turn;
    uint32_t read_left; /* as draft_read_guess, of this turn */
};
