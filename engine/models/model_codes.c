#include "engine/models/model_codes.h"

#include <stdatomic.h>

#include "config/base/mem.h"

struct codes_job {
    const struct tensor *from;
    uint32_t cols;
    float *rows; /* [threads][cols] */
    unsigned char *to;
    atomic_bool is_refused;
};

bool model_codes_takes(const struct tensor_type_info *type)
{
    return type->id == TENSOR_TYPE_f32 || type->id == TENSOR_TYPE_f16 ||
           type->id == TENSOR_TYPE_bf16 || type->id == TENSOR_TYPE_q8_0;
}

static size_t row_bytes(uint32_t cols)
{
    const struct tensor_type_info *type = tensor_type_info(TENSOR_TYPE_q4_1);
    return (size_t)(cols / type->block_elements) * type->block_bytes;
}

static void make_row(void *context, uint32_t index, uint32_t thread)
{
    struct codes_job *job = context;
    float *x = job->rows + (size_t)thread * job->cols;
    tensor_row_to_f32(job->from, index, x);
    if (!tensor_row_to_q4_1(x, job->cols, MODEL_CODES_GROUP,
                            job->to + index * row_bytes(job->cols)))
        atomic_store_explicit(&job->is_refused, true, memory_order_relaxed);
}

enum status model_codes_make(struct tensor *tensor, const char *name, struct kernels *kernels,
                             void **memory)
{
    const uint32_t cols = (uint32_t)tensor->dims[0];
    const uint32_t rows = (uint32_t)(tensor->dims[1] * tensor->dims[2]); /* of all experts */
    const uint32_t threads = kernels_threads(kernels);
    const struct tensor_type_info *type = tensor_type_info(TENSOR_TYPE_q4_1);
    struct codes_job job = {.from = tensor, .cols = cols};
    enum status status = STATUS_OK;
    *memory = NULL;
    if (cols % type->block_elements != 0)
        FAIL(STATUS_UNSUPPORTED, "int4: rows of tensor '%s' have %u inputs, no multiple of %u",
             name, cols, type->block_elements);
    job.to = mem_zalloc(rows, row_bytes(cols));
    job.rows = mem_zalloc(threads, cols * sizeof *job.rows);
    if (job.to == NULL || job.rows == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "int4: no memory for the codes of tensor '%s'", name);
    kernels_each(kernels, threads, rows, make_row, &job);
    if (atomic_load_explicit(&job.is_refused, memory_order_relaxed))
        FAIL_OUT(STATUS_UNSUPPORTED,
                 "int4: tensor '%s' has a value that is not finite or beyond 65504", name);
    tensor->type = type;
    tensor->data = *memory = job.to;
    tensor->bytes = rows * row_bytes(cols);
    tensor->group = MODEL_CODES_GROUP;
    job.to = NULL;
out:
    mem_free(job.rows);
    mem_free(job.to);
    return status;
}
