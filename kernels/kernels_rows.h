/* kernels_rows: operations on independent rows: embedding, norms, activations, rotary embedding,
 * copies, statistics of logits.
 *
 * Owns:     nothing.
 * Thread:   as kernels.h says.
 * Cost:     one pass over the rows; no allocation.
 * Not here: linear layers, attention, pages (kernels.h, which includes this file).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kernels;
struct weight;

/* out[r] = row tokens[r] of the embedding table, as float32. */
struct embed_args {
    const struct weight *table; /* rows = vocabulary, cols = width */
    const uint32_t *tokens;     /* [rows] */
    uint32_t rows;
    float *out; /* [rows][table->cols] */
};
void kernels_embed(struct kernels *kernels, const struct embed_args *args);

/* y = x ÷ sqrt(mean(x²) + epsilon) × weight (Zhang and Sennrich 2019). y may be x. */
struct norm_args {
    const float *x;      /* [rows][cols] */
    const float *weight; /* [cols] */
    float *y;            /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
    float epsilon;
};
void kernels_norm(struct kernels *kernels, const struct norm_args *args);

/* Activations of a gate x and a factor `up`. */
enum act_kind {
    ACT_NONE,
    ACT_SILU_MUL, /* x = silu(x) × up, silu(x) = x ÷ (1 + e^-x) (Shazeer 2020, SwiGLU) */
};
struct act_args {
    enum act_kind kind;
    float *x;        /* [rows][cols] */
    const float *up; /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
};
void kernels_act(struct kernels *kernels, const struct act_args *args);

/* table[r][i] = {cos, sin} of position × frequency; once a step for all layers. */
struct rope_table_args {
    const uint32_t *positions; /* [rows] */
    const float *frequencies;  /* [pairs] */
    uint32_t rows;
    uint32_t pairs; /* rotated dimensions ÷ 2 */
    float *table;   /* [rows][pairs][2] */
};
void kernels_rope_table(struct kernels *kernels, const struct rope_table_args *args);

/* Rotary position embedding in place (Su et al. 2021). ROPE_INTERLEAVED pairs dimensions
 * (0,1)(2,3)…, as GGUF files of the llama architecture do; ROPE_HALVES pairs (0,n/2)(1,n/2+1)…. */
enum rope_pairing { ROPE_INTERLEAVED, ROPE_HALVES };
struct rope_args {
    float *x; /* [rows][heads][head_dim] */
    const float *table;
    uint32_t rows;
    uint32_t heads;
    uint32_t head_dim;
    uint32_t pairs;
    enum rope_pairing pairing;
};
void kernels_rope(struct kernels *kernels, const struct rope_args *args);

/* to[i] = from[order[i]]: rows of `cols` floats. The areas do not overlap. */
struct gather_args {
    float *to;
    const float *from;
    const uint32_t *order; /* [rows] */
    uint32_t rows;
    uint32_t cols;
};
void kernels_gather(struct kernels *kernels, const struct gather_args *args);

/* Of one row of logits: the greatest value, its first index, and log Σ e^x summed in a fixed order.
 */
struct logits_stats {
    float max;
    uint32_t argmax;
    float log_sum_exp;
};
void kernels_logits_stats(struct kernels *kernels, const float *logits, uint32_t rows,
                          uint32_t vocab, struct logits_stats *out /* [rows] */);

#ifdef __cplusplus
}
#endif
