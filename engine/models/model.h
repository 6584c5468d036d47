/* model: the weights of one architecture, ready for the kernels, and its forward pass.
 *
 * Owns:     packed weights and the activations of a step.
 * Thread:   made at start; model_forward on the engine thread only.
 * Cost:     no allocation after model_open; one step streams every weight once.
 * Not here: sampling, pages, which rows form a batch. Architectures are rows of models.def.
 */
#pragma once

#include <stdint.h>

#include "config/base/pulse.h"
#include "engine/models/gguf.h"
#include "engine/models/model_share.h"
#include "kernels/kernels.h"

struct model;

/* What layers' matrices are packed from: as they stand in the file, or those of f32, f16, bf16 and
 * q8_0 made into 4-bit codes by groups of 128 inputs (model_int4). The embedding table and the
 * output layer stay as they are. */
enum model_weights { MODEL_WEIGHTS_FILE, MODEL_WEIGHTS_INT4 };

/* By name: "file", "int4". INVALID names both. */
enum status model_weights_find(enum model_weights *out, const char *name);
const char *model_weights_name(enum model_weights weights);

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

/* Reads and checks the hyper-parameters alone: every one against its range, the others and the
 * embedding table. UNSUPPORTED names the architecture or feature that is not known, CORRUPT the
 * key that is wrong. */
enum status model_config_read(struct model_config *out, const struct gguf *gguf);

/* The widest input of a linear layer: what kernels_options.cols_max must be at least. */
uint32_t model_cols_max(const struct model_config *config);

/* Checks every tensor's shape and type, packs the weights. `rows_max` is the largest batch and
 * `logit_rows_max` the most rows of one batch that want logits. The file may be closed after. */
enum status model_open(struct model **out, struct kernels *kernels, const struct gguf *gguf,
                       uint32_t rows_max, uint32_t logit_rows_max);
/* One rank's share of it: pages are laid out for the share's KV heads, every rank is given the same
 * batches, over kernels whose ranks are these. Rank 0 alone has logits. Groups of codes are of the
 * share's own inputs. UNSUPPORTED as model_int4_make too. */
enum status model_open_share(struct model **out, struct kernels *kernels, const struct gguf *gguf,
                             uint32_t rows_max, uint32_t logit_rows_max, enum model_weights weights,
                             const struct model_share *share);
void model_close(struct model *model);
const struct model_config *model_config(const struct model *model);

/* What became of the layers' matrices under MODEL_WEIGHTS_INT4, of this share; else all zero. */
struct model_int4_sums {
    uint32_t matrices; /* made into codes, */
    uint64_t file_bytes;
    uint64_t bytes; /* as the kernels have them */
    uint32_t kept;  /* as in the file: of 4 to 6 bits there already */
    uint64_t kept_bytes;
};
const struct model_int4_sums *model_int4_sums(const struct model *model);

struct model_batch;
/* Called with every batch before it is computed: other ranks compute it too. */
void model_tell(struct model *model, void (*told)(void *context, const struct model_batch *batch),
                void *context);

/* A sign of life of the thread that computes, with every layer: on processors a step of many rows
 * may take minutes, and nobody shall think that it hangs. NULL: nobody watches. */
void model_watch(struct model *model, struct pulse *pulse, uint32_t place);

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

/* Writes K and V of all rows to their pages and returns logits [logit_rows][vocab], owned by the
 * model and valid until the next call, in memory of the kernels; a device's are there when
 * kernels_step_end or a download says so. Tokens are below the vocabulary, positions below the
 * context, pages laid out for this model: anything else is a programmer error. NULL when the device
 * has failed, the note says how. */
const float *model_forward(struct model *model, const struct model_batch *batch);
