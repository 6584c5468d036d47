/* draft_model: a small model of the same vocabulary, which guesses what the large one will say.
 *
 * Owns:     the small model, its KV pages, and which sequence's text they hold.
 * Thread:   made at start; then engine thread only.
 * Cost:     weights and DRAFT_MODEL_CONTEXTS texts of pages; no allocation after draft_model_open.
 * Not here: its guesses (draft_read), which need of model.h the forward pass alone.
 *
 * Its pages are its own: no tree, host page or other text sees them, and they may go at any time.
 */
#pragma once

#include "engine/draft/draft_model_state.h"
#include "engine/models/vocab.h"

struct draft_model_options {
    const struct gguf *gguf;
    const struct vocab *vocab; /* of the large model */
    struct kernels *kernels;   /* with cols_max for both */
    enum kv_type kv_type;
    uint32_t page_tokens;
    uint32_t context;
    uint32_t rows_max;
    uint32_t places; /* of sequences */
    /* Guesses are judged by sampler_judge: they have noise of their own. */
    bool has_own_noise;
};

/* UNSUPPORTED: another vocabulary, or a shorter context; else as model_open and kv_pool_init. */
enum status draft_model_open(struct draft_model **out, const struct draft_model_options *options);
void draft_model_close(struct draft_model *draft);
