/* model_types: hyper-parameters of a model, and the batch that it computes.
 *
 * Owns:     nothing: the arrays of a batch are the caller's.
 * Thread:   any.
 * Cost:     –
 * Not here: reading and computing them (model), an architecture's inside (model_arch).
 */
#pragma once

#include <stdint.h>

#include "kernels/kernels.h"

/* What layers' matrices are packed from: as they stand in the file, or those of f32, f16, bf16 and
 * q8_0 made into 4-bit codes by groups of 128 inputs (model_int4). The embedding table and the
 * output layer stay as they are. */
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
    uint32_t window;  /* tokens that attention goes back over, the row's own among them; 0: all */
    float rms_epsilon;
    float rope_base;
    uint32_t rope_dims;
    uint64_t weight_bytes; /* of all tensors as in the file */
    uint64_t parameters;
};

/* What became of the layers' matrices under MODEL_WEIGHTS_INT4, of this share; else all zero. */
struct model_int4_sums {
    uint32_t matrices; /* made into codes, */
    uint64_t file_bytes;
    uint64_t bytes; /* as the kernels have them */
    uint32_t kept;  /* as in the file: of 4 to 6 bits there already */
    uint64_t kept_bytes;
};

/* A flat batch of rows: tokens of any sequences, each sequence's rows in rising position. */
struct model_batch {
    uint32_t rows;
    const uint32_t *tokens;                /* [rows] */
    struct kv_rows kv;                     /* sequence, position, pages */
    const struct attention_groups *groups; /* rows that share pages; NULL = none */
    uint32_t logit_rows;
    const uint32_t *logit_row; /* [logit_rows] indexes of rows whose logits are wanted */
    uint32_t layers;           /* the first so many alone, K and V of the others stay; 0 = all */
};
