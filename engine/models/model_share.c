#include "engine/models/model_share.h"

#include <string.h>

#include "config/base/mem.h"
#include "engine/models/model_types.h"

/* Size of a block to cut the layer by: that of K types, else of the other types,
 * else one element. */
static uint32_t of_unit(uint32_t hidden, uint32_t count)
{
    static const uint32_t units[] = {256, 32};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (hidden % units[i] == 0 && hidden / units[i] >= count)
            return units[i];
    return 1;
}

enum status model_share_of(struct model_share *out, const struct model_config *config,
                           uint32_t rank, uint32_t count)
{
    ASSERT(rank < count);
    if (count > 1 && config->has_row_norms)
        FAIL(STATUS_UNSUPPORTED,
             "tensor parallel: architecture %s norms queries and keys over all heads together, "
             "which "
             "ranks cannot divide",
             config->architecture);
    if (config->kv_heads % count != 0)
        FAIL(STATUS_UNSUPPORTED, "tensor parallel: %u key-value heads do not divide by %u ranks",
             config->kv_heads, count);
    uint32_t unit = of_unit(config->hidden, count);
    uint64_t units = config->hidden / unit;
    if (units < count)
        FAIL(STATUS_UNSUPPORTED,
             "tensor parallel: a feed-forward layer of %u does not divide by %u ranks",
             config->hidden, count);
    uint32_t begin = (uint32_t)(units * rank / count) * unit;
    uint32_t end = (uint32_t)(units * (rank + 1) / count) * unit;
    *out = (struct model_share){
        .rank = rank,
        .count = count,
        .head_begin = config->heads / count * rank,
        .heads = config->heads / count,
        .kv_head_begin = config->kv_heads / count * rank,
        .kv_heads = config->kv_heads / count,
        .hidden_begin = begin,
        .hidden = end - begin,
        .vocab_begin = (uint32_t)((uint64_t)config->vocab * rank / count),
    };
    out->vocab = (uint32_t)((uint64_t)config->vocab * (rank + 1) / count) - out->vocab_begin;
    return STATUS_OK;
}

enum status model_share_whole_experts(struct model_share *share, const struct model_config *config)
{
    if (config->experts == 0 || share->count == 1)
        return STATUS_OK;
    if (config->experts < share->count)
        FAIL(STATUS_UNSUPPORTED, "tensor parallel: %u experts do not suffice for %u ranks",
             config->experts, share->count);
    share->expert_every = share->count;
    share->hidden_begin = 0;
    share->hidden = config->hidden;
    return STATUS_OK;
}

static uint64_t row_bytes(const struct tensor *tensor, uint64_t cols)
{
    return cols / tensor->type->block_elements * tensor->type->block_bytes;
}

void model_share_rows(struct tensor *tensor, struct model_part part)
{
    uint64_t bytes = row_bytes(tensor, tensor->dims[0]);
    ASSERT((uint64_t)part.begin + part.count <= tensor->dims[1]);
    tensor->data = (const char *)tensor->data + part.begin * bytes;
    tensor->dims[1] = part.count;
    tensor->bytes = part.count * bytes;
}

enum status model_share_cols(struct tensor *tensor, const char *name, struct model_part part,
                             void **memory)
{
    uint32_t block = tensor->type->block_elements;
    ASSERT((uint64_t)part.begin + part.count <= tensor->dims[0]);
    *memory = NULL;
    if (part.begin % block != 0 || part.count % block != 0)
        FAIL(STATUS_UNSUPPORTED,
             "tensor parallel: inputs %u to %u of tensor '%s' are no whole blocks of %s (%u each)",
             part.begin, part.begin + part.count, name, tensor->type->name, block);
    uint64_t whole = row_bytes(tensor, tensor->dims[0]);
    uint64_t bytes = row_bytes(tensor, part.count);
    uint64_t offset = row_bytes(tensor, part.begin);
    const uint64_t rows = tensor->dims[1] * tensor->dims[2]; /* of all experts */
    char *out = mem_zalloc(rows, bytes);
    if (out == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for a share of tensor '%s'", name);
    for (uint64_t row = 0; row < rows; row++)
        memcpy(out + row * bytes, (const char *)tensor->data + row * whole + offset, bytes);
    tensor->data = *memory = out;
    tensor->dims[0] = part.count;
    tensor->bytes = rows * bytes;
    return STATUS_OK;
}

/* Copies `count` runs of `bytes` bytes that are `stride` bytes apart. */
static enum status share_runs(struct tensor *tensor, const char *name, uint64_t offset,
                              uint64_t stride, uint64_t bytes, uint64_t count, void **memory)
{
    *memory = NULL;
    char *out = mem_zalloc(count, bytes);
    if (out == NULL)
        FAIL(STATUS_NO_MEMORY, "model: no memory for a share of tensor '%s'", name);
    for (uint64_t i = 0; i < count; i++)
        memcpy(out + i * bytes, (const char *)tensor->data + offset + i * stride, bytes);
    tensor->data = *memory = out;
    tensor->bytes = count * bytes;
    return STATUS_OK;
}

enum status model_share_expert_rows(struct tensor *tensor, const char *name, struct model_part part,
                                    void **memory)
{
    const uint64_t bytes = row_bytes(tensor, tensor->dims[0]);
    ASSERT((uint64_t)part.begin + part.count <= tensor->dims[1]);
    TRY(share_runs(tensor, name, part.begin * bytes, tensor->dims[1] * bytes, part.count * bytes,
                   tensor->dims[2], memory));
    tensor->dims[1] = part.count;
    return STATUS_OK;
}

enum status model_share_experts(struct tensor *tensor, const char *name, uint32_t every,
                                uint32_t own, void **memory)
{
    const uint64_t bytes = tensor->dims[1] * row_bytes(tensor, tensor->dims[0]);
    ASSERT(own < every && every <= tensor->dims[2]);
    const uint64_t count = (tensor->dims[2] - own + every - 1) / every;
    TRY(share_runs(tensor, name, own * bytes, every * bytes, bytes, count, memory));
    tensor->dims[2] = count;
    return STATUS_OK;
}
