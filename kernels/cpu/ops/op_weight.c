#include "kernels/cpu/ops/ops.h"

#include <stdatomic.h>
#include <string.h>

#include "config/base/limits.h"
#include "config/base/mem.h"

struct weight_job {
    const struct kernel_table *table;
    const struct tensor *tensor;
    const struct weight *weight;
    atomic_bool is_corrupt;
};

static void op_weight_job(void *context, uint32_t thread, uint32_t count)
{
    struct weight_job *job = context;
    const uint64_t rows = job->weight->rows;
    uint32_t begin;
    uint32_t end;
    threads_share(table_groups(job->weight->rows), thread, count, &begin, &end);
    const uint64_t last = (uint64_t)end * TABLE_GROUP;
    if (!tensor_rows_are_valid(job->tensor, (uint64_t)begin * TABLE_GROUP,
                               last < rows ? last : rows))
        atomic_store(&job->is_corrupt, true);
    job->table->weight_pack(job->tensor, begin, end, job->weight->packed);
}

/* Weights are many pieces of some hundred KiB, read in order at every step. Side by side in huge
 * pages they stream a fifth faster than in separate allocations. A chunk is freed with its last
 * weight. */
struct ops_chunk {
    struct ops_chunk *next;
    char *memory;
    size_t bytes;
    size_t used;
    uint32_t live;
};

enum { WEIGHT_CHUNK_BYTES = 16 << 20, WEIGHT_ALONE_BYTES = 64 << 10, WEIGHT_ALIGNMENT = 64 };

static void *create_in_chunk(struct kernels *kernels, size_t bytes)
{
    struct ops_chunk *chunk = kernels->chunks;
    size_t padded = (bytes / WEIGHT_ALIGNMENT + 2) * WEIGHT_ALIGNMENT;
    if (chunk == NULL || padded > chunk->bytes - chunk->used) {
        chunk = mem_zalloc(1, sizeof *chunk);
        if (chunk == NULL)
            return NULL;
        chunk->bytes = padded > WEIGHT_CHUNK_BYTES ? padded : WEIGHT_CHUNK_BYTES;
        chunk->memory = cpu_ops_buffer_create(chunk->bytes);
        if (chunk->memory == NULL) {
            mem_free(chunk);
            return NULL;
        }
        chunk->next = kernels->chunks;
        kernels->chunks = chunk;
    }
    char *out = chunk->memory + chunk->used;
    chunk->used += padded;
    chunk->live++;
    memset(out + bytes, 0, padded - bytes);
    return out;
}

static void *create_memory(struct kernels *kernels, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    return bytes < WEIGHT_ALONE_BYTES ? cpu_ops_buffer_create(bytes)
                                      : create_in_chunk(kernels, bytes);
}

enum status op_weight_create(struct kernels *kernels, struct weight *out,
                             const struct tensor *tensor)
{
    const struct tensor_type_info *type = tensor->type;
    *out = (struct weight){0};
    if (tensor->dims[2] > 1 || tensor->dims[3] > 1)
        FAIL(STATUS_UNSUPPORTED, "a tensor of %u dimensions is not a matrix", tensor->dim_count);
    if (tensor->dims[0] < 1 || tensor->dims[0] > kernels->cols_max)
        FAIL(STATUS_UNSUPPORTED, "a matrix over %llu inputs; from 1 to %u are supported",
             (unsigned long long)tensor->dims[0], kernels->cols_max);
    if (tensor->dims[1] < 1 || tensor->dims[1] > LIMIT_WEIGHT_ROWS)
        FAIL(STATUS_UNSUPPORTED, "a matrix of %llu outputs; from 1 to %d are supported",
             (unsigned long long)tensor->dims[1], LIMIT_WEIGHT_ROWS);
    uint32_t cols = (uint32_t)tensor->dims[0];
    uint32_t rows = (uint32_t)tensor->dims[1];
    if (cols % type->block_elements != 0)
        FAIL(STATUS_UNSUPPORTED, "rows of %u elements are not whole blocks of %s", cols,
             type->name);
    uint64_t row_bytes = (uint64_t)(cols / type->block_elements) * type->block_bytes;
    if (tensor->bytes != row_bytes * rows)
        FAIL(STATUS_CORRUPT, "a %s matrix of %u × %u has %llu bytes instead of %llu", type->name,
             rows, cols, (unsigned long long)tensor->bytes, (unsigned long long)(row_bytes * rows));
    size_t bytes = kernels->table->weight_bytes(type, rows, cols);
    if (bytes == 0)
        FAIL(STATUS_UNSUPPORTED, "the kernels %s do not support %s weights of %u × %u",
             kernels->table->name, type->name, rows, cols);
    void *packed = create_memory(kernels, bytes);
    if (packed == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu bytes of weights", bytes);
    *out = (struct weight){.type = type,
                           .rows = rows,
                           .cols = cols,
                           .group = tensor->group,
                           .packed = packed,
                           .packed_bytes = bytes};
    struct weight_job job = {.table = kernels->table, .tensor = tensor, .weight = out};
    ops_run(kernels, &(struct ops_work){.op = KERNELS_OP_weight_pack}, (size_t)rows * cols,
            op_weight_job, &job);
    if (atomic_load(&job.is_corrupt)) {
        op_weight_destroy(kernels, out);
        FAIL(STATUS_CORRUPT, "a block of %s has a factor above 2^15", type->name);
    }
    return STATUS_OK;
}

void op_weight_destroy(struct kernels *kernels, struct weight *weight)
{
    const char *packed = weight->packed;
    struct ops_chunk **link = &kernels->chunks;
    if (weight->packed_bytes < WEIGHT_ALONE_BYTES) {
        mem_free(weight->packed);
        *weight = (struct weight){0};
        return;
    }
    while (packed < (*link)->memory || packed >= (*link)->memory + (*link)->bytes)
        link = &(*link)->next;
    struct ops_chunk *chunk = *link;
    if (--chunk->live == 0) {
        *link = chunk->next;
        mem_free(chunk->memory);
        mem_free(chunk);
    }
    *weight = (struct weight){0};
}
