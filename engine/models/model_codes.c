#include "engine/models/model_codes.h"

#include <stdatomic.h>

#include "config/base/mem.h"

/* What becomes of a matrix, by enum model_weights. */
static const struct codes_form {
    const char *name;
    enum tensor_type type;
    uint32_t group; /* inputs that share factors, where these are more than a block; 0: none */
    const char *refusal;
} CODES_FORMS[] = {
    [MODEL_WEIGHTS_INT4] = {"int4", TENSOR_TYPE_q4_1, MODEL_CODES_GROUP, "65504"},
    [MODEL_WEIGHTS_Q8] = {"q8", TENSOR_TYPE_q8_0, 0, "127 times 65504"},
};

struct codes_job {
    const struct codes_form *form;
    const struct tensor *from;
    uint32_t cols;
    size_t row_bytes;
    float *rows; /* [threads][cols] */
    unsigned char *to;
    atomic_bool is_refused;
};

bool model_codes_takes(enum model_weights weights, const struct tensor_type_info *type)
{
    const bool is_float =
        type->id == TENSOR_TYPE_f32 || type->id == TENSOR_TYPE_f16 || type->id == TENSOR_TYPE_bf16;
    switch (weights) {
    case MODEL_WEIGHTS_INT4:
        return is_float || type->id == TENSOR_TYPE_q8_0;
    case MODEL_WEIGHTS_Q8:
        return is_float;
    default:
        return false;
    }
}

static void make_row(void *context, uint32_t index, uint32_t thread)
{
    struct codes_job *job = context;
    float *x = job->rows + (size_t)thread * job->cols;
    unsigned char *to = job->to + index * job->row_bytes;
    tensor_row_to_f32(job->from, index, x);
    const bool is_made = job->form->type == TENSOR_TYPE_q8_0
                             ? tensor_row_to_q8_0(x, job->cols, to)
                             : tensor_row_to_q4_1(x, job->cols, job->form->group, to);
    if (!is_made)
        atomic_store_explicit(&job->is_refused, true, memory_order_relaxed);
}

enum status model_codes_make(struct tensor *tensor, const char *name, enum model_weights weights,
                             struct kernels *kernels, void **memory)
{
    ASSERT(model_codes_takes(weights, tensor->type));
    const struct codes_form *form = &CODES_FORMS[weights];
    const uint32_t cols = (uint32_t)tensor->dims[0];
    const uint32_t rows = (uint32_t)(tensor->dims[1] * tensor->dims[2]); /* of all experts */
    const uint32_t threads = kernels_threads(kernels);
    const struct tensor_type_info *type = tensor_type_info(form->type);
    struct codes_job job = {.form = form, .from = tensor, .cols = cols};
    enum status status = STATUS_OK;
    *memory = NULL;
    if (cols % type->block_elements != 0)
        FAIL(STATUS_UNSUPPORTED, "%s: rows of tensor '%s' have %u inputs, no multiple of %u",
             form->name, name, cols, type->block_elements);
    job.row_bytes = (size_t)(cols / type->block_elements) * type->block_bytes;
    job.to = mem_zalloc(rows, job.row_bytes);
    job.rows = mem_zalloc(threads, cols * sizeof *job.rows);
    if (job.to == NULL || job.rows == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "%s: no memory for the codes of tensor '%s'", form->name, name);
    kernels_each(kernels, threads, rows, make_row, &job);
    if (atomic_load_explicit(&job.is_refused, memory_order_relaxed))
        FAIL_OUT(STATUS_UNSUPPORTED, "%s: tensor '%s' has a value that is not finite or beyond %s",
                 form->name, name, form->refusal);
    tensor->type = type;
    tensor->data = *memory = job.to;
    tensor->bytes = rows * job.row_bytes;
    tensor->group = form->group;
    job.to = NULL;
out:
    mem_free(job.rows);
    mem_free(job.to);
    return status;
}
