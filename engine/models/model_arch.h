/* model_arch: the inside of a model, and the loading of tensors that all architectures share.
 *
 * Owns:     the inside of struct model; the decoder owns what `decoder` points to.
 * Thread:   as model.h says.
 * Cost:     loading reads every weight once.
 * Not here: the list of architectures (arch.def), their tensors (decoder_weights).
 */
#pragma once

#include "config/base/pulse.h"
#include "engine/models/arch.h"
#include "engine/models/model_share.h"
#include "engine/models/model_source.h"
#include "engine/models/model_types.h"
#include "engine/models/model_units.h"

struct decoder;

struct model {
    struct model_config config;
    struct model_share share;
    enum model_weights weights;
    struct model_codes_sums codes_sums;
    const struct arch *arch;
    struct decoder *decoder;
    struct kernels *kernels;
    uint32_t rows_max;
    uint32_t logit_rows_max;
    uint32_t context;                             /* tokens that are served */
    uint64_t packed_bytes;                        /* of the file, while it is opened */
    int64_t told_us;                              /* when "model_loading" was logged last */
    const struct model_batch *batch;              /* of the current step */
    struct model_place places[LIMIT_LAYERS];      /* of the layers' keys in its pages */
    const struct attention_groups *wanted_groups; /* of its rows with logits; NULL = none */
    uint32_t *wanted_order;                       /* [logit_rows_max], as wanted_shared */
    uint32_t *wanted_shared;
    void (*told)(void *context, const struct model_batch *batch); /* or NULL */
    void *told_context;
    struct pulse *pulse; /* beats at pulse_place with every layer; or NULL */
    uint32_t pulse_place;
    float *logits; /* [logit_rows_max][vocab] in memory of the kernels, owned by the decoder */
    bool has_states;
    float *states; /* [logit_rows_max][width], likewise; NULL without has_states */
};

/* Packs a matrix [rows][cols] of the file for the kernels. CORRUPT when its shape differs. */
enum status model_arch_matrix(struct model *model, const struct model_source *source,
                              const char *name, uint32_t rows, uint32_t cols, struct weight *out);

/* The same for a part of a matrix: these rows and columns. */
enum status model_arch_matrix_part(struct model *model, const struct model_source *source,
                                   const char *name, uint32_t rows, uint32_t cols,
                                   struct model_part of_rows, struct model_part of_cols,
                                   struct weight *out);

/* The same for a matrix of a layer, which becomes 4-bit codes with MODEL_WEIGHTS_INT4. */
enum status model_arch_layer_part(struct model *model, const struct model_source *source,
                                  const char *name, uint32_t rows, uint32_t cols,
                                  struct model_part of_rows, struct model_part of_cols,
                                  struct weight *out);

/* Packs the router of a layer with experts, whole in each rank and never as 4-bit codes. CORRUPT
 * when a value is not finite. */
enum status model_arch_router(struct model *model, const struct model_source *source,
                              const char *name, uint32_t rows, uint32_t cols, struct weight *out);

/* Packs the matrices [experts][rows][cols] of a layer's experts, these rows and columns of each. */
enum status model_arch_experts(struct model *model, const struct model_source *source,
                               const char *name, uint32_t rows, uint32_t cols,
                               struct model_part of_rows, struct model_part of_cols,
                               struct weight *out);

/* Counts `bytes` more of the file as packed; logs "model_loading" once a second. Whether it did. */
bool model_arch_progress(struct model *model, uint64_t bytes, int64_t now_us);

/* Loads a vector of `count` float32 values into memory of the kernels (kernels_buffer_destroy).
 * CORRUPT when its length differs or a value is not finite, UNSUPPORTED for another type. */
enum status model_arch_vector(struct model *model, const struct model_source *source,
                              const char *name, uint32_t count, float **out);

/* The same for `part` of each of `each` vectors, one behind the other: [each][part.count]. */
enum status model_arch_vector_part(struct model *model, const struct model_source *source,
                                   const char *name, uint32_t count, uint32_t each,
                                   struct model_part part, float **out);

/* Loads a whole vector into the caller's memory [count]. */
enum status model_arch_vector_read(const struct model_source *source, const char *name,
                                   uint32_t count, float *out);

/* Allocates `rows` × `cols` float32 values for the activations of a step. */
enum status model_arch_buffer(struct model *model, uint64_t rows, uint64_t cols, float **out);
