#include "kernels/cpu/ops/ops.h"

#include <string.h>

#include "config/base/limits.h"
#include "config/base/mem.h"

struct weight_job {
    const struct kernel_table *table;
    const struct tensor *tensor;
    const struct weight *weight;
};

static void op_weight_job(void *context, uint32_t thread, uint32_t count)
{
    const struct weight_job *job = context;
    uint32_t begin;
    uint32_t end;
    threads_share(table_groups(job->weight->rows), thread, count, &begin, &end);
    job->table->weight_pack(job->tensor, begin, end, job->weight->packed);
}

enum status op_weight_create(struct kernels *kernels, struct weight *out,
                             const struct tensor *tensor)
{
    const struct tensor_type_info *type = tensor->type;
    *out = (struct weight){0};
    if (tensor->dims[2] > 1 || tensor->dims[3] > 1)
        FAIL(STATUS_UNSUPPORTED, "a tensor of %u dimensions is no matrix", tensor->dim_count);
    if (tensor->dims[0] < 1 || tensor->dims[0] > kernels->cols_max)
        FAIL(STATUS_UNSUPPORTED, "a matrix over %llu inputs; from 1 to %u are supported",
             (unsigned long long)tensor->dims[0], kernels->cols_max);
    if (tensor->dims[1] < 1 || tensor->dims[1] > LIMIT_WEIGHT_ROWS)
        FAIL(STATUS_UNSUPPORTED, "a matrix of %llu outputs; from 1 to %d are supported",
             (unsigned long long)tensor->dims[1], LIMIT_WEIGHT_ROWS);
    uint32_t cols = (uint32_t)tensor->dims[0];
    uint32_t rows = (uint32_t)tensor->dims[1];
    if (cols % type->block_elements != 0)
        FAIL(STATUS_UNSUPPORTED, "rows of %u elements are no whole blocks of %s", cols, type->name);
    uint64_t row_bytes = (uint64_t)(cols / type->block_elements) * type->block_bytes;
    if (tensor->bytes != row_bytes * rows)
        FAIL(STATUS_CORRUPT, "a %s matrix of %u × %u has %llu bytes instead of %llu", type->name,
             rows, cols, (unsigned long long)tensor->bytes, (unsigned long long)(row_bytes * rows));
    size_t bytes = kernels->table->weight_bytes(type, rows, cols);
    if (bytes == 0)
        FAIL(STATUS_UNSUPPORTED, "kernels %s have no path for %s weights of %u × %u",
             kernels->table->name, type->name, rows, cols);
    void *packed = kernels_buffer_create(kernels, bytes);
    if (packed == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu bytes of weights", bytes);
    *out = (struct weight){
        .type = type, .rows = rows, .cols = cols, .packed = packed, .packed_bytes = bytes};
    struct weight_job job = {.table = kernels->table, .tensor = tensor, .weight = out};
    ops_run(kernels, (size_t)rows * cols, op_weight_job, &job);
    return STATUS_OK;
}

void op_weight_destroy(struct weight *weight)
{
    mem_free(weight->packed);
    *weight = (struct weight){0};
}
