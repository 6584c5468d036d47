/* model: the weights of one architecture, packed for the kernels, and its forward pass.
 *
 * Owns:     packed weights and the activations of a step.
 * Thread:   made at start; model_forward on the engine thread only.
 * Cost:     no allocation after model_open; one step reads every weight once.
 * Not here: sampling, pages, which rows form a batch. Architectures are rows of arch.def.
 */
#pragma once

#include <stdint.h>

#include "config/base/pulse.h"
#include "engine/models/model_config.h"
#include "engine/models/model_share.h"
#include "engine/models/model_types.h"
#include "kernels/kernels.h"

struct model;

/* Finds weights by name: "file", "int4" or "q8". INVALID for another name. */
enum status model_weights_find(enum model_weights *out, const char *name);
const char *model_weights_name(enum model_weights weights);

/* The widest input of a linear layer; kernels_options.cols_max must be at least this. */
uint32_t model_cols_max(const struct model_config *config);

struct model_options {
    uint32_t rows_max;       /* the largest batch */
    uint32_t logit_rows_max; /* the most rows of one batch with logits */
    /* Tokens that are served; 0 = the model's own context. Factors of LongRoPE depend on it. */
    uint32_t context;
    enum model_weights weights;
    bool has_states; /* model_states is called */
};

/* Checks the shape and type of every tensor, and packs the weights. The file may be closed
 * afterwards. Errors as model_config_read; CORRUPT, UNSUPPORTED or NOT_FOUND for a tensor;
 * NO_MEMORY. */
enum status model_open(struct model **out, struct kernels *kernels,
                       const struct model_source *source, uint32_t rows_max,
                       uint32_t logit_rows_max);
/* Opens one rank's share of the model. Pages have the share's KV heads. Every rank must be given
 * the same batches, with kernels whose ranks these are; only rank 0 has logits. Groups of
 * codes are of the share's own inputs. Errors also as model_codes_make. */
enum status model_open_share(struct model **out, struct kernels *kernels,
                             const struct model_source *source, const struct model_options *options,
                             const struct model_share *share);
void model_close(struct model *model);
const struct model_config *model_config(const struct model *model);

/* What became of the weights of this share; all zero with MODEL_WEIGHTS_FILE. */
const struct model_codes_sums *model_codes_sums(const struct model *model);

/* Sets the function called with every batch before it is computed, so that other
 * ranks compute it. */
void model_tell(struct model *model, void (*told)(void *context, const struct model_batch *batch),
                void *context);

/* Makes the computing thread beat at `place` with every layer: on processors a step of many rows
 * may take minutes, and the thread must not seem to hang. NULL = no beats. */
void model_watch(struct model *model, struct pulse *pulse, uint32_t place);

/* Writes K and V of all rows to their pages and returns logits [logit_rows][vocab], owned by the
 * model and valid until the next call, in memory of the kernels; on a device they are complete
 * after kernels_step_end or a download. Asserts that tokens are below the vocabulary, positions
 * below the context, and pages laid out for this model. NULL when the device has failed; the error
 * note says how. */
const float *model_forward(struct model *model, const struct model_batch *batch);

/* Whether each row attends to all tokens of its text. Then a batch has whole texts, the rows of a
 * text one behind the other, and model_forward returns the states: there are no logits. */
bool model_is_encoder(const struct model *model);

/* Returns the states behind the last norm of the rows with logits, [logit_rows][width], of the last
 * call of model_forward, with the lifetime and place of the logits. The model was opened with
 * has_states. */
const float *model_states(const struct model *model);
