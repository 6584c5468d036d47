/* llama_file: Llama-shaped model files with random weights, of any shape and weight type.
 *
 * Owns:     nothing; the bytes of a built file belong to the caller.
 * Thread:   one.
 * Cost:     linear in the weights.
 * Not here: the container (gguf_writer).
 */
#pragma once

#include "tests/kit/gguf_writer.h"

struct llama_shape {
    uint32_t layers;
    uint32_t width;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t hidden;
    uint32_t vocab;
    uint32_t context;
    uint32_t type; /* of the matrices, as in tensor_types.def */
    bool has_own_output;
    bool has_rope_freqs;
    uint32_t rope_dims; /* 0: head_dim, and no key */
    uint64_t seed;
    const char *without; /* a key or tensor that is left out, or NULL */
};

/* Returns the shape of a model that loads: 2 layers of width 64, 4 heads of 32 over 2, F32. */
struct llama_shape llama_file_shape(void);

/* Writes all keys except those of a tokenizer, and all tensors; a test may add to the writer. */
void llama_file_write(struct gguf_writer *writer, const struct llama_shape *shape);

/* Writes the keys of a byte-level tokenizer without merges: 256 single bytes, then <|endoftext|>
 * (256), <|im_start|> (257), <|im_end|> (258), then words that no merge produces, up to `vocab` (at
 * least 259), and a chat template like SmolLM2's. */
void llama_file_write_tokenizer(struct gguf_writer *writer, uint32_t vocab);

/* Builds the whole file without a tokenizer; the caller frees `out` with buffer_deinit. */
void llama_file_build(const struct llama_shape *shape, struct buffer *out);
