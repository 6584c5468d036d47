/* tiny_model: model files of every architecture, with weights by a formula.
 *
 * Owns:     nothing; the bytes of a built file belong to the caller.
 * Thread:   one.
 * Cost:     linear in the weights; aborts when there is no memory (tests only).
 * Not here: the container (gguf_writer), packed types (pack_values), what the models compute
 *           (tests/parity/tiny).
 *
 * A weight is add + k ÷ 2²³ × scale. k is the upper 24 bits of splitmix64(FNV-1a(name) + index),
 * less 2²³; `name` is the tensor's name in a Hugging Face file and `index` its place there, rows
 * first. tests/parity/tiny/make.py computes the same bits, so no weights are in the tree. The GGUF
 * file has these weights in the order and under the names that llama.cpp's converter gives them.
 */
#pragma once

#include "tests/kit/gguf_writer.h"

enum tiny_family {
    TINY_LLAMA,
    TINY_MIXTRAL,
    TINY_QWEN2,
    TINY_QWEN3,
    TINY_QWEN3MOE,
    TINY_GEMMA,
    TINY_GEMMA2,
    TINY_GEMMA3,
    TINY_PHI3,
    TINY_OLMO2,
    TINY_OLMO3,
    TINY_OLMOE,
    TINY_GPT_OSS,
    TINY_SMOLLM3,
    TINY_STARCODER2,
};

enum tiny_rope {
    TINY_ROPE_PLAIN,
    TINY_ROPE_LLAMA3,
    TINY_ROPE_LINEAR,
    TINY_ROPE_YARN,
    TINY_ROPE_LONG
};

enum { TINY_SCALES = 8, TINY_VOCAB = 320, TINY_MODEL_MXFP4 = 39 /* as in tensor_types.def */ };

/* Weights whose Hugging Face name ends with `suffix` have this scale, and this much added. */
struct tiny_scale {
    const char *suffix;
    float scale;
    float add;
};

/* One model. A test may change its own copy. */
struct tiny_model {
    const char *name; /* of tests/parity/tiny/<name>.json */
    enum tiny_family family;
    uint32_t layers;
    uint32_t width;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t hidden; /* feed-forward length of a dense layer */
    uint32_t context;
    uint32_t vocab; /* 0: TINY_VOCAB */
    uint32_t experts;
    uint32_t experts_used;
    uint32_t expert_hidden;
    uint32_t window; /* 0: the file has no such key */
    bool has_own_output;
    float epsilon;
    float rope_base;
    float rope_base_local; /* 0: the file has no such key */
    enum tiny_rope rope;
    float rope_factor;
    uint32_t rope_original; /* context before it was stretched */
    uint32_t rope_dims;     /* 0: head_dim */
    float attention_softcap;
    float logit_softcap;
    uint32_t type;        /* of the matrices, as in tensor_types.def; 0: F32 */
    uint32_t expert_type; /* of the experts' matrices */
    struct tiny_scale scales[TINY_SCALES];
    /* What no converter writes; tests see that such a file gives other numbers. */
    bool is_unpermuted;       /* q and k have the order of rows of the Hugging Face file */
    bool is_up_first;         /* phi3: up, then gate */
    bool has_no_rope_freqs;   /* llama: without the factors */
    bool has_factors_swapped; /* phi3: the long factors under the name of the short ones */
};

/* Returns the models of tiny_models.def. */
uint32_t tiny_model_count(void);
const struct tiny_model *tiny_model_at(uint32_t index);
/* Returns NULL for an unknown name. */
const struct tiny_model *tiny_model_find(const char *name);
/* Returns general.architecture. */
const char *tiny_model_architecture(const struct tiny_model *model);

/* Returns one weight by the formula. */
float tiny_model_weight(const char *name, uint64_t index, float add, float scale);

/* Writes all keys except those of a tokenizer, and all tensors; a test may add to the writer. */
void tiny_model_write(struct gguf_writer *writer, const struct tiny_model *model);

/* A tensor as the Hugging Face file has it: its numbers follow from its name. */
enum tiny_form {
    TINY_FLOATS,    /* tiny_model_weight(name, index, add, scale) */
    TINY_CODES,     /* bytes of MXFP4 blocks, tiny_model_byte */
    TINY_EXPONENTS, /* bytes of their scales, likewise */
};
struct tiny_tensor {
    const char *name;
    enum tiny_form form;
    bool is_matrix; /* in the type of the model's matrices; others are F32 */
    uint32_t dim_count;
    uint64_t shape[4]; /* the last one varies fastest */
    float add;
    float scale;
};

/* Calls `take` with each tensor of the Hugging Face file. */
void tiny_model_each(const struct tiny_model *model,
                     void (*take)(void *context, const struct tiny_tensor *tensor), void *context);
/* Returns byte `index` of a tensor that is not of floats. */
uint8_t tiny_model_byte(const struct tiny_tensor *tensor, uint64_t index);
/* Returns a factor of LongRoPE, for long or for short contexts. */
double tiny_model_long_factor(uint32_t pair, bool is_long);

/* Builds the whole file, without a tokenizer; the caller frees `out` with buffer_deinit. */
void tiny_model_build(const struct tiny_model *model, struct buffer *out);
