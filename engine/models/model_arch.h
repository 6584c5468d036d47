/* model_arch: what an architecture is to model.c, and the loading that architectures share.
 *
 * Owns:     the inside of struct model; an architecture owns what hangs on `state`.
 * Thread:   as model.h says.
 * Cost:     loading reads every weight once; forward never allocates.
 * Not here: the list of architectures (models/models.def), their tensors' names (models/<name>.c).
 */
#pragma once

#include "config/base/pulse.h"
#include "engine/models/gguf.h"
#include "engine/models/model_share.h"
#include "engine/models/model_types.h"

struct model;

struct model_arch {
    const char *name; /* general.architecture */
    /* Fills model->state from the file, or fails after giving back what it took. */
    enum status (*open)(struct model *model, const struct gguf *gguf);
    void (*close)(struct model *model);
    /* Its logits go to model->logits. A device may run what an earlier call of a batch of the same
     * shape asked of it (kernels_step_run): nothing but the kernels' operations does the work. */
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
    int64_t told_us;                              /* when its progress was told last */
    const struct model_batch *batch;              /* of the step that runs */
    const struct attention_groups *wanted_groups; /* of its rows that want logits; NULL: none */
    uint32_t *wanted_order;                       /* [logit_rows_max], as is */
    uint32_t *wanted_shared;
    void (*told)(void *context, const struct model_batch *batch); /* or NULL */
    void *told_context;
    struct pulse *pulse; /* beats with every layer, at this place; or NULL */
    uint32_t pulse_place;
    float *logits; /* [logit_rows_max][vocab] memory of the kernels, which the architecture owns */
    void *state;
};

/* A matrix [rows][cols] of the file, packed for the kernels. CORRUPT when its shape differs. */
enum status model_arch_matrix(struct model *model, const struct gguf *gguf, const char *name,
                              uint32_t rows, uint32_t cols, struct weight *out);

/* The same of a matrix of which this rank has a part, of rows or of columns: the other is whole. */
enum status model_arch_matrix_part(struct model *model, const struct gguf *gguf, const char *name,
                                   uint32_t rows, uint32_t cols, struct model_part of_rows,
                                   struct model_part of_cols, struct weight *out);

/* The same of a layer's matrix, which is made into codes where the model is opened so. */
enum status model_arch_layer_part(struct model *model, const struct gguf *gguf, const char *name,
                                  uint32_t rows, uint32_t cols, struct model_part of_rows,
                                  struct model_part of_cols, struct weight *out);

/* `bytes` more of the file are packed: a line "model_loading" a second. Whether it was written. */
bool model_arch_progress(struct model *model, uint64_t bytes, int64_t now_us);

/* A vector of `count` float32 values in memory of the kernels (kernels_buffer_destroy). CORRUPT
 * when its length differs or a value is not finite, UNSUPPORTED when it is of another type. */
enum status model_arch_vector(struct model *model, const struct gguf *gguf, const char *name,
                              uint32_t count, float **out);

/* The same to the caller's memory [count]. */
enum status model_arch_vector_read(const struct gguf *gguf, const char *name, uint32_t count,
                                   float *out);

/* Room for `rows` × `cols` float32 values of a step. */
enum status model_arch_buffer(struct model *model, uint64_t rows, uint64_t cols, float **out);
