/* model_types: hyper-parameters of a model, and the batch that it computes.
 *
 * Owns:     nothing: the caller owns the arrays of a batch.
 * Thread:   any.
 * Cost:     –
 * Not here: reading and computing them (model), the inside of an architecture (model_arch).
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "kernels/kernels.h"

/* How matrices are packed (model_codes); routers always as they are in the file.
 *     FILE  as they are in the file
 *     INT4  those of layers that are f32, f16, bf16 or q8_0 as 4-bit codes by groups of 128 inputs
 *     Q8    those that are f32, f16 or bf16 as q8_0, the embedding table and the output layer too
 */
enum model_weights { MODEL_WEIGHTS_FILE, MODEL_WEIGHTS_INT4, MODEL_WEIGHTS_Q8 };

/* How positions become angles, and how a context beyond the training's is stretched. */
enum model_rope_scaling {
    MODEL_ROPE_PLAIN,
    MODEL_ROPE_LINEAR, /* all frequencies are divided by the factor */
    MODEL_ROPE_YARN,   /* low frequencies are divided, high ones are not (Peng et al. 2023) */
    MODEL_ROPE_LONG,   /* each frequency has a factor of its own, for long and for short contexts */
};
struct model_rope {
    float base;
    enum model_rope_scaling scaling;
    float factor;              /* of LINEAR and YARN */
    uint32_t original_context; /* of YARN and LONG: tokens in training, before it was stretched */
    float beta_fast;           /* of YARN: turns in the original context above which a dimension */
    float beta_slow;           /* stays, and below which it is divided */
    bool is_rounded;           /* of YARN: the range between both is rounded to whole dimensions */
    float table_factor;        /* of cos and sin */
};

/* What a layer's attention does with positions. */
struct layer_kind {
    uint32_t window;     /* tokens that a row attends to, its own included; 0 = all before it */
    uint8_t frequencies; /* index in model_config.ropes */
    bool has_rope;       /* whether positions rotate q and k */
};
/* At most, in one model. Where one of two kinds has a window, it is the second. */
enum { MODEL_KINDS = 2 };

struct model_config {
    char architecture[32];
    char name[128]; /* general.name, or the file's base name */
    uint32_t layers;
    uint32_t width; /* embedding length */
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t rope_dims;
    uint32_t hidden; /* feed-forward length, of one expert where there are experts */
    uint32_t vocab;
    uint32_t context; /* tokens */
    uint32_t experts; /* of a layer; 0 = dense layers */
    uint32_t experts_used;
    uint32_t kind_count;
    struct layer_kind kinds[MODEL_KINDS]; /* [kind_count] */
    uint8_t kind_of[LIMIT_LAYERS];        /* [layers] indexes in kinds */
    struct model_rope ropes[MODEL_KINDS];
    bool has_row_norms; /* q and k are normed over all heads together, so ranks cannot share them */
    float embed_scale;  /* of the embeddings; 1 = none */
    float attention_scale;
    float attention_softcap; /* 0 = none */
    float logit_softcap;     /* 0 = none */
    float norm_epsilon;
    uint64_t weight_bytes; /* of all tensors in the file */
    uint64_t parameters;
};

/* What became of the matrices of this share that may become codes; all zero with
 * MODEL_WEIGHTS_FILE. */
struct model_codes_sums {
    uint32_t matrices; /* turned into codes */
    uint64_t file_bytes;
    uint64_t bytes; /* as packed by the kernels */
    uint32_t kept;  /* as in the file, because they have as few bits a weight there */
    uint64_t kept_bytes;
};

/* Rows of any sequences, the rows of each sequence by rising position. */
struct model_batch {
    uint32_t rows;
    const uint32_t *tokens;                /* [rows] */
    struct kv_rows kv;                     /* sequence, position, pages */
    const struct attention_groups *groups; /* rows that share pages; NULL = none */
    uint32_t logit_rows;
    const uint32_t *logit_row; /* [logit_rows] rows whose logits are computed */
    uint32_t layers;           /* compute the first `layers` only; 0 = all */
};
