/* model_types: hyper-parameters of a model, and the batch that it computes.
 *
 * Owns:     nothing: the caller owns the arrays of a batch.
 * Thread:   any.
 * Cost:     –
 * Not here: reading and computing them (model), the inside of an architecture (model_arch).
 */
#pragma once

#include <stdint.h>

#include "kernels/kernels.h"

/* How the matrices of layers are packed: as they are in the file, or with f32, f16, bf16 and q8_0
 * turned into 4-bit codes by groups of 128 inputs (model_int4). The embedding table and the output
 * layer stay as they are. */
enum model_weights { MODEL_WEIGHTS_FILE, MODEL_WEIGHTS_INT4 };

struct model_config {
    char architecture[32];
    char name[128]; /* general.name, or the file's base name */
    uint32_t layers;
    uint32_t width; /* embedding length */
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t hidden; /* feed-forward length */
    uint32_t vocab;
    uint32_t context; /* tokens */
    uint32_t window;  /* tokens that a row attends to, its own included; 0 = all before it */
    float rms_epsilon;
    float rope_base;
    uint32_t rope_dims;
    uint64_t weight_bytes; /* of all tensors in the file */
    uint64_t parameters;
};

/* What became of the layers' matrices of this share with MODEL_WEIGHTS_INT4; else all zero. */
struct model_int4_sums {
    uint32_t matrices; /* turned into codes */
    uint64_t file_bytes;
    uint64_t bytes; /* as packed by the kernels */
    uint32_t kept;  /* as in the file, because they have 4 to 6 bits a weight there */
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
