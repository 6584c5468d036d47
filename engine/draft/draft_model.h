/* draft_model: a small model with the same vocabulary, which proposes tokens to the large one.
 *
 * Owns:     the small model, its KV pages, and the record of which sequence's tokens they hold.
 * Thread:   made at start; then engine thread only.
 * Cost:     its weights, and pages for DRAFT_MODEL_CONTEXTS full contexts; no allocation after
 *           draft_model_open.
 * Not here: drafting (draft_read).
 *
 * Its pages are its own: no tree, host page or other sequence uses them, and they may be dropped at
 * any time.
 */
#pragma once

#include "engine/draft/draft_model_state.h"
#include "engine/models/vocab.h"

struct draft_model_options {
    const struct model_source *source;
    const struct vocab *vocab; /* of the large model */
    struct kernels *kernels;   /* with a cols_max for both models */
    enum kv_type kv_type;
    uint32_t page_tokens;
    uint32_t context;
    uint32_t rows_max;
    uint32_t places; /* slots of sequences */
    /* As draft_guess: drafts are verified by sampler_judge. */
    bool has_own_noise;
};

/* UNSUPPORTED for another vocabulary or a shorter context; else as model_open and kv_pool_init. */
enum status draft_model_open(struct draft_model **out, const struct draft_model_options *options);
void draft_model_close(struct draft_model *draft);
