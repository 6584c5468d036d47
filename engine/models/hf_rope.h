/* hf_rope: what config.json says about rope, as the keys and the factors of a GGUF file.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(factors).
 * Not here: the angles themselves (rope_frequencies).
 */
#pragma once

#include "config/base/limits.h"
#include "engine/models/hf_reader.h"

enum { HF_ROPE_FACTORS = LIMIT_HEAD_DIM / 2 };

/* Factors of frequencies, which GGUF files have in tensors. */
struct hf_rope {
    uint32_t pairs; /* elements of each list; 0: there are none */
    bool has_long;  /* the factors are for short, and others for long contexts */
    float factors[HF_ROPE_FACTORS];
    float long_factors[HF_ROPE_FACTORS];
};

/* `reader` is that of the whole file, `context` its max_position_embeddings. */
enum status hf_rope_read(struct hf_rope *out, const struct hf_reader *reader, uint32_t head_dim,
                         uint32_t context);
