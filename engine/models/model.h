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
#include "engine/models/model_types.h"
#include "kernels/kernels.h"

struct model;

/* By name: "file", "int4". INVALID names both. */
enum status model_weights_find(enum model_weights *out, const char *name);
const char *model_weights_name(enum model_weights weights);

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

/* Of this share, under MODEL_WEIGHTS_INT4; else all zero. */
const struct model_int4_sums *model_int4_sums(const struct model *model);

/* Called with every batch before it is computed: other ranks compute it too. */
void model_tell(struct model *model, void (*told)(void *context, const struct model_batch *batch),
                void *context);

/* A sign of life of the thread that computes, with every layer: on processors a step of many rows
 * may take minutes, and nobody shall think that it hangs. NULL: nobody watches. */
void model_watch(struct model *model, struct pulse *pulse, uint32_t place);

/* Writes K and V of all rows to their pages and returns logits [logit_rows][vocab], owned by the
 * model and valid until the next call, in memory of the kernels; a device's are there when
 * kernels_step_end or a download says so. Tokens are below the vocabulary, positions below the
 * context, pages laid out for this model: anything else is a programmer error. NULL when the device
 * has failed, the note says how. */
const float *model_forward(struct model *model, const struct model_batch *batch);
