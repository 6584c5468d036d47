/* hf_config: config.json of a Hugging Face directory, as the keys that a GGUF file would have.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(keys of the file).
 * Not here: checking the numbers against each other (model_config), tensors (hf_tensors).
 *
 * The file has two spellings: rope_theta and rope_scaling, or rope_parameters, which may differ by
 * the kind of layer. What GGUF files have in tensors, the factors of rope, is in config.json.
 * transformers obeys config.json, so what contradicts the row of arch.def is refused here.
 */
#pragma once

#include "engine/models/hf_rope.h"

/* What is in config.json and belongs to tensors. */
struct hf_config {
    const struct arch *arch;
    uint32_t head_dim;
    bool is_tied;   /* the embedding serves as output layer */
    bool is_untied; /* it does not; neither: config.json does not say */
    bool is_mxfp4;  /* the experts' matrices are in blocks of that format */
    struct hf_rope rope;
};

/* Writes the model's keys. UNSUPPORTED or CORRUPT names the key of config.json. */
enum status hf_config_read(struct hf_config *out, const struct json_read *json,
                           struct gguf_keys *keys);
