#include "engine/models/model_arch.h"

#include <math.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "engine/models/model_codes.h"
#include "kernels/kernels_experts.h"

enum status model_arch_matrix(struct model *model, const struct model_source *source,
                              const char *name, uint32_t rows, uint32_t cols, struct weight *out)
{
    return model_arch_matrix_part(model, source, name, rows, cols, (struct model_part){0, rows},
                                  (struct model_part){0, cols}, out);
}

/* This rank's part of the file's matrix; `*memory` (mem_free) has its bytes if they were copied. */
static enum status matrix_view(const struct model_source *source, const char *name, uint32_t rows,
                               uint32_t cols, struct model_part of_rows, struct model_part of_cols,
                               struct tensor *out, void **memory)
{
    enum status status = STATUS_OK;
    void *loaded;
    *memory = NULL;
    TRY(model_source_load_tensor(source, name, out, &loaded));
    if (out->dim_count != 2 || out->dims[0] != cols || out->dims[1] != rows)
        FAIL_OUT(STATUS_CORRUPT, "model file: tensor '%s' is %llu x %llu, it must be %u x %u", name,
                 (unsigned long long)out->dims[0], (unsigned long long)out->dims[1], cols, rows);
    if (of_rows.count < rows)
        model_share_rows(out, of_rows);
    if (of_cols.count < cols) {
        TRY_OUT(model_share_cols(out, name, of_cols, memory));
    } else {
        *memory = loaded;
        loaded = NULL;
    }
out:
    mem_free(loaded);
    return status;
}

/* Packs the matrix, or the matrices of a layer's experts, as they are or, if `may_code` and
 * model_codes takes their type, as codes. */
static enum status matrix_pack(struct model *model, struct tensor *tensor, const char *name,
                               bool may_code, struct weight *out)
{
    struct model_codes_sums *sums = &model->codes_sums;
    const uint64_t file_bytes = tensor->bytes;
    const bool is_coded = may_code && model_codes_takes(model->weights, tensor->type);
    void *codes = NULL;
    if (is_coded)
        TRY(model_codes_make(tensor, name, model->weights, model->kernels, &codes));
    const enum status status = tensor->dim_count == 3
                                   ? kernels_experts_weight(model->kernels, out, tensor)
                                   : kernels_weight_create(model->kernels, out, tensor);
    mem_free(codes);
    if (status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED)
        FAIL(status, "model file: tensor '%s': %s", name, status_note()->message);
    TRY(status);
    if (is_coded) {
        sums->matrices++;
        sums->file_bytes += file_bytes;
        sums->bytes += out->packed_bytes;
    } else if (may_code) {
        sums->kept++;
        sums->kept_bytes += file_bytes;
    }
    (void)model_arch_progress(model, file_bytes, clock_mono_us(clock_system()));
    return STATUS_OK;
}

static enum status matrix_open(struct model *model, const struct model_source *source,
                               const char *name, uint32_t rows, uint32_t cols,
                               struct model_part of_rows, struct model_part of_cols, bool may_code,
                               struct weight *out)
{
    struct tensor tensor;
    void *memory;
    TRY(matrix_view(source, name, rows, cols, of_rows, of_cols, &tensor, &memory));
    const enum status status = matrix_pack(model, &tensor, name, may_code, out);
    mem_free(memory);
    return status;
}

enum status model_arch_matrix_part(struct model *model, const struct model_source *source,
                                   const char *name, uint32_t rows, uint32_t cols,
                                   struct model_part of_rows, struct model_part of_cols,
                                   struct weight *out)
{
    const bool may_code = model->weights == MODEL_WEIGHTS_Q8;
    return matrix_open(model, source, name, rows, cols, of_rows, of_cols, may_code, out);
}

enum status model_arch_layer_part(struct model *model, const struct model_source *source,
                                  const char *name, uint32_t rows, uint32_t cols,
                                  struct model_part of_rows, struct model_part of_cols,
                                  struct weight *out)
{
    const bool may_code = model->weights != MODEL_WEIGHTS_FILE;
    return matrix_open(model, source, name, rows, cols, of_rows, of_cols, may_code, out);
}

/* CORRUPT when a value of the matrix is not finite. */
static enum status router_check(const struct tensor *tensor, const char *name)
{
    const uint64_t cols = tensor->dims[0];
    bool is_finite = true;
    float *row = mem_zalloc(cols, sizeof *row);
    if (row == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for a row of tensor '%s'", name);
    for (uint64_t r = 0; r < tensor->dims[1]; r++) {
        tensor_row_to_f32(tensor, r, row);
        for (uint64_t c = 0; c < cols; c++)
            is_finite = is_finite && isfinite(row[c]);
    }
    mem_free(row);
    if (!is_finite)
        FAIL(STATUS_CORRUPT, "model file: tensor '%s' has a value that is not finite", name);
    return STATUS_OK;
}

enum status model_arch_router(struct model *model, const struct model_source *source,
                              const char *name, uint32_t rows, uint32_t cols, struct weight *out)
{
    struct tensor tensor;
    void *memory;
    TRY(matrix_view(source, name, rows, cols, (struct model_part){0, rows},
                    (struct model_part){0, cols}, &tensor, &memory));
    enum status status = router_check(&tensor, name);
    if (status == STATUS_OK)
        status = matrix_pack(model, &tensor, name, false, out);
    mem_free(memory);
    return status;
}

/* This rank's part of each expert; `*memory` (mem_free) has its bytes if they were copied. */
static enum status experts_view(struct model *model, struct tensor *tensor, const char *name,
                                struct model_part of_rows, struct model_part of_cols, void **memory)
{
    const struct model_share *share = &model->share;
    void *before = NULL;
    *memory = NULL;
    if (share->expert_every > 0)
        return model_share_experts(tensor, name, share->expert_every, share->rank, memory);
    if (of_rows.count < tensor->dims[1])
        TRY(model_share_expert_rows(tensor, name, of_rows, &before));
    if (of_cols.count < tensor->dims[0]) {
        const enum status status = model_share_cols(tensor, name, of_cols, memory);
        mem_free(before);
        return status;
    }
    *memory = before;
    return STATUS_OK;
}

enum status model_arch_experts(struct model *model, const struct model_source *source,
                               const char *name, uint32_t rows, uint32_t cols,
                               struct model_part of_rows, struct model_part of_cols,
                               struct weight *out)
{
    const uint32_t experts = model->config.experts;
    const bool may_code = model->weights != MODEL_WEIGHTS_FILE;
    struct tensor tensor;
    void *loaded;
    void *memory = NULL;
    enum status status = STATUS_OK;
    TRY(model_source_load_tensor(source, name, &tensor, &loaded));
    if (tensor.dim_count != 3 || tensor.dims[0] != cols || tensor.dims[1] != rows ||
        tensor.dims[2] != experts)
        FAIL_OUT(STATUS_CORRUPT,
                 "model file: tensor '%s' is %llu x %llu x %llu, it must be %u x %u x %u", name,
                 (unsigned long long)tensor.dims[0], (unsigned long long)tensor.dims[1],
                 (unsigned long long)tensor.dims[2], cols, rows, experts);
    TRY_OUT(experts_view(model, &tensor, name, of_rows, of_cols, &memory));
    TRY_OUT(matrix_pack(model, &tensor, name, may_code, out));
out:
    mem_free(memory);
    mem_free(loaded);
    return status;
}

bool model_arch_progress(struct model *model, uint64_t bytes, int64_t now_us)
{
    enum { PROGRESS_US = 1000000 }; /* a small model is loaded before the first line is due */
    model->packed_bytes += bytes;
    if (now_us - model->told_us < PROGRESS_US)
        return false;
    model->told_us = now_us;
    LOG(LOG_INFO, "model_loading", LOG_NUMBER("mib", model->packed_bytes >> 20),
        LOG_NUMBER("of_mib", model->config.weight_bytes >> 20));
    return true;
}

/* Copies `each` vectors of `count` values to memory [each][count]. */
static enum status vector_copy(const struct tensor *tensor, const char *name, uint32_t count,
                               uint32_t each, float *out)
{
    const uint32_t dim_count = each > 1 ? 2 : 1;
    if (tensor->dim_count != dim_count || tensor->dims[0] != count || tensor->dims[1] != each)
        FAIL(STATUS_CORRUPT, "model file: tensor '%s' has %llu x %llu values, it must have %u x %u",
             name, (unsigned long long)tensor->dims[0], (unsigned long long)tensor->dims[1], count,
             each);
    if (tensor->type->id != TENSOR_TYPE_f32)
        FAIL(STATUS_UNSUPPORTED, "model file: tensor '%s' is %s, only f32 is supported there", name,
             tensor->type->name);
    const size_t values = (size_t)count * each;
    memcpy(out, tensor->data, values * sizeof *out);
    for (size_t i = 0; i < values; i++)
        if (!isfinite(out[i]))
            FAIL(STATUS_CORRUPT, "model file: tensor '%s' has a value that is not finite", name);
    return STATUS_OK;
}

/* Reads them from the file. */
static enum status vector_read(const struct model_source *source, const char *name, uint32_t count,
                               uint32_t each, float *out)
{
    struct tensor tensor;
    void *memory;
    TRY(model_source_load_tensor(source, name, &tensor, &memory));
    const enum status status = vector_copy(&tensor, name, count, each, out);
    mem_free(memory);
    return status;
}

enum status model_arch_vector_read(const struct model_source *source, const char *name,
                                   uint32_t count, float *out)
{
    return vector_read(source, name, count, 1, out);
}

enum status model_arch_vector(struct model *model, const struct model_source *source,
                              const char *name, uint32_t count, float **out)
{
    return model_arch_vector_part(model, source, name, count, 1, (struct model_part){0, count},
                                  out);
}

enum status model_arch_vector_part(struct model *model, const struct model_source *source,
                                   const char *name, uint32_t count, uint32_t each,
                                   struct model_part part, float **out)
{
    const size_t bytes = part.count * sizeof **out;
    float *values = mem_zalloc((size_t)count * each, sizeof *values);
    if (values == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for %u x %u values", count, each);
    const bool is_whole =
        each > 1 && model->share.expert_every > 0; /* whole experts of this rank */
    const uint32_t every = is_whole ? model->share.expert_every : 1;
    const uint32_t first = is_whole ? model->share.rank : 0;
    uint32_t taken = 0;
    enum status status = vector_read(source, name, count, each, values);
    for (uint32_t i = first; status == STATUS_OK && i < each; i += every, taken++)
        memmove(values + (size_t)taken * part.count, values + (size_t)i * count + part.begin,
                bytes); /* never beyond what is still read */
    if (status == STATUS_OK)
        status = model_arch_buffer(model, taken, part.count, out);
    if (status == STATUS_OK)
        kernels_upload(model->kernels, *out, values, taken * bytes);
    mem_free(values);
    return status;
}

enum status model_arch_buffer(struct model *model, uint64_t rows, uint64_t cols, float **out)
{
    size_t bytes;
    if (__builtin_mul_overflow(rows, cols, &bytes) ||
        __builtin_mul_overflow(bytes, sizeof **out, &bytes))
        FAIL(STATUS_NO_MEMORY, "model: %llu rows of %llu values do not fit memory",
             (unsigned long long)rows, (unsigned long long)cols);
    *out = kernels_buffer_create(model->kernels, bytes);
    if (*out == NULL)
        return kernels_no_memory(model->kernels, bytes, "a model's activations");
    return STATUS_OK;
}
