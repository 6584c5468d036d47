/* kernels_rows: operations on independent rows: embedding, norms, activations, rotary embedding,
 * soft caps, copies, statistics of logits.
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

/* out[r] = scale × row tokens[r] of the embedding table, as float32, and the vector of the row's
 * position, if the model has such. */
struct embed_args {
    const struct weight *table; /* rows = vocabulary, cols = width */
    const uint32_t *tokens;     /* [rows] */
    uint32_t rows;
    float *out;                /* [rows][table->cols] */
    float scale;               /* 0: 1 */
    const float *added;        /* [positions][table->cols]; NULL: none. Not on a device */
    const uint32_t *positions; /* [rows] of `added` */
};
void kernels_embed(struct kernels *kernels, const struct embed_args *args);

/* NORM_RMS:   y = x ÷ sqrt(mean(x²) + epsilon) × weight (Zhang and Sennrich 2019).
 * NORM_LAYER: y = (x − mean(x)) ÷ sqrt(mean((x − mean(x))²) + epsilon) × weight + bias (Ba et al.
 *             2016).
 * y may be x. */
enum norm_kind { NORM_RMS, NORM_LAYER };
struct norm_args {
    const float *x;      /* [rows][cols] */
    const float *weight; /* [cols] */
    float *y;            /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
    float epsilon;
    enum norm_kind kind;
    const float *bias; /* [cols], of NORM_LAYER; NULL: none */
    bool accumulate;   /* y += … instead; y is not x */
};
void kernels_norm(struct kernels *kernels, const struct norm_args *args);

/* Activations. The first group takes a gate x and a factor `up`, the second one x alone. */
enum act_kind {
    ACT_NONE,
    ACT_SILU_MUL, /* x = silu(x) × up, silu(x) = x ÷ (1 + e^-x) (Shazeer 2020, SwiGLU) */
    ACT_GELU_MUL, /* x = gelu(x) × up, gelu as in ACT_GELU_TANH (Shazeer 2020, GeGLU) */
    /* of GPT-OSS: x at most 7, up within ±7, x = x ÷ (1 + e^-1.702x) × (up + 1) */
    ACT_CLAMPED_MUL,
    /* x = x ÷ 2 × (1 + tanh(sqrt(2 ÷ π) × (x + 0.044715 x³))) (Hendrycks and Gimpel 2016) */
    ACT_GELU_TANH,
    ACT_GELU_ERF, /* x = x ÷ 2 × (1 + erf(x ÷ sqrt(2))) */
};
static inline bool kernels_act_takes_two(enum act_kind kind)
{
    return kind == ACT_SILU_MUL || kind == ACT_GELU_MUL || kind == ACT_CLAMPED_MUL;
}
struct act_args {
    enum act_kind kind;
    float *x;        /* [rows][cols] */
    const float *up; /* [rows][cols], or NULL where the activation takes one */
    uint32_t rows;
    uint32_t cols;
};
void kernels_act(struct kernels *kernels, const struct act_args *args);

/* table[r][i] = factor × {cos, sin} of position × frequency; once a step for all layers. */
struct rope_table_args {
    const uint32_t *positions; /* [rows] */
    const float *frequencies;  /* [pairs] */
    uint32_t rows;
    uint32_t pairs; /* rotated dimensions ÷ 2 */
    float *table;   /* [rows][pairs][2] */
    float factor;   /* 0: 1 */
};
void kernels_rope_table(struct kernels *kernels, const struct rope_table_args *args);

/* Rotary position embedding in place (Su et al. 2021). ROPE_INTERLEAVED pairs dimensions
 * (0,1)(2,3)…, as GGUF files of the llama architecture do; ROPE_HALVES pairs (0,n/2)(1,n/2+1)….
 * Without pairs only the norm is done. */
enum rope_pairing { ROPE_INTERLEAVED, ROPE_HALVES };
struct rope_args {
    float *x; /* [rows][heads][head_dim] */
    const float *table;
    uint32_t rows;
    uint32_t heads;
    uint32_t head_dim;
    uint32_t pairs;
    enum rope_pairing pairing;
    const float *norm; /* [head_dim]; if not NULL, each head is first replaced by its NORM_RMS */
    float epsilon;     /* of the norm */
};
void kernels_rope(struct kernels *kernels, const struct rope_args *args);

/* x = cap × tanh(x ÷ cap), of logits. */
struct softcap_args {
    float *x; /* [rows][cols] */
    uint32_t rows;
    uint32_t cols;
    float cap; /* above 0 */
};
void kernels_softcap(struct kernels *kernels, const struct softcap_args *args);

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
