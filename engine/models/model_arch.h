/* model_arch: the interface between model.c and an architecture, and the loading that all share.
 *
 * Owns:     the inside of struct model; an architecture owns what `state` points to.
 * Thread:   as model.h says.
 * Cost:     loading reads every weight once; forward never allocates.
 * Not here: the list of architectures (models/models.def), their tensors' names (models/<name>.c).
 */
#pragma once

#include "config/base/pulse.h"
#include "engine/models/model_share.h"
#include "engine/models/model_source.h"
#include "engine/models/model_types.h"

struct model;

struct model_arch {
    const char *name; /* general.architecture */
    /* Fills model->state from the file, or fails after freeing what it took. */
    enum status (*open)(struct model *model, const struct model_source *source);
    void (*close)(struct model *model);
    /* Computes logits into model->logits. A device may repeat what an earlier call of a batch
     * of the same shape asked of it (kernels_step_run), so only operations of the kernels may
     * do the work. */
    void (*forward)(struct model *model, const struct model_batch *batch);
};

struct model {
    struct model_config config;
    struct model_share share;
    enum model_weights weights;
    struct model_int4_sums int4_sums;
    const struct model_arch *arch;
    struct kernels *kernels;
    uint32_t rows_max;
    uint32_t logit_rows_max;
    uint64_t packed_bytes;                        /* of the file, while it is opened */
    int64_t told_us;                              /* when "model_loading" was logged last */
    const struct model_batch *batch;              /* of the current step */
    const struct attention_groups *wanted_groups; /* of its rows with logits; NULL = none */
    uint32_t *wanted_order;                       /* [logit_rows_max], as wanted_shared */
    uint32_t *wanted_shared;
    void (*told)(void *context, const struct model_batch *batch); /* or NULL */
    void *told_context;
    struct pulse *pulse; /* beats at pulse_place with every layer; or NULL */
    uint32_t pulse_place;
    float *logits; /* [logit_rows_max][vocab] in memory of the kernels, owned by the architecture */
    void *state;
};

/* Packs a matrix [rows][cols] of the file for the kernels. CORRUPT when its shape differs. */
enum status model_arch_matrix(struct model *model, const struct model_source *source,
                              const char *name, uint32_t rows, uint32_t cols, struct weight *out);

/* The same for this rank's part of a matrix, cut by rows or by columns; the other one is whole. */
enum status model_arch_matrix_part(struct model *model, const struct model_source *source,
                                   const char *name, uint32_t rows, uint32_t cols,
                                   struct model_part of_rows, struct model_part of_cols,
                                   struct weight *out);

/* The same for a matrix of a layer, which becomes 4-bit codes with MODEL_WEIGHTS_INT4. */
enum status model_arch_layer_part(struct model *model, const struct model_source *source,
                                  const char *name, uint32_t rows, uint32_t cols,
                                  struct model_part of_rows, struct model_part of_cols,
                                  struct weight *out);

/* Counts `bytes` more of the file as packed; logs "model_loading" once a second. Whether it did. */
bool model_arch_progress(struct model *model, uint64_t bytes, int64_t now_us);

/* Loads a vector of `count` float32 values into memory of the kernels (kernels_buffer_destroy).
 * CORRUPT when its length differs or a value is not finite, UNSUPPORTED for another type. */
enum status model_arch_vector(struct model *model, const struct model_source *source,
                              const char *name, uint32_t count, float **out);

/* The same into the caller's memory [count]. */
enum status model_arch_vector_read(const struct model_source *source, const char *name,
                                   uint32_t count, float *out);

/* Allocates `rows` × `cols` float32 values for the activations of a step. */
enum status model_arch_buffer(struct model *model, uint64_t rows, uint64_t cols, float **out);
