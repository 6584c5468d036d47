#include "kernels/cuda/cuda_plan.h"

#include <string.h>

uint32_t cuda_plan_rows(const struct kv_rows *kv, uint32_t rows, struct cuda_plan_row *out,
                        uint32_t *tables, uint32_t tables_max)
{
    const uint32_t page_tokens = kv->layout->page_tokens;
    uint32_t used = 0;
    uint32_t next;
    for (uint32_t first = 0; first < rows; first = next) {
        uint32_t last = 0; /* position */
        for (next = first; next < rows && kv->sequence[next] == kv->sequence[first]; next++) {
            out[next] = (struct cuda_plan_row){.position = kv->position[next], .table = used};
            if (kv->position[next] > last)
                last = kv->position[next];
        }
        const uint32_t pages = last / page_tokens + 1;
        if (pages > tables_max - used)
            return CUDA_PLAN_NONE;
        memcpy(tables + used, kv->page_tables[kv->sequence[first]], pages * sizeof *tables);
        used += pages;
    }
    return used;
}

uint32_t cuda_plan_tiles(const struct cuda_plan_row *rows, uint32_t count, uint32_t group,
                         struct cuda_plan_tile *out, uint32_t *keys_max)
{
    const uint32_t most = CUDA_PLAN_QUERIES / group;
    uint32_t tiles = 0;
    *keys_max = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct cuda_plan_tile *last = &out[tiles > 0 ? tiles - 1 : 0];
        const uint32_t keys = rows[i].position + 1;
        if (keys > *keys_max)
            *keys_max = keys;
        if (tiles > 0 && last->rows < most && rows[i].table == rows[i - 1].table &&
            rows[i].position > rows[i - 1].position) {
            last->rows++;
            last->keys = keys;
            continue;
        }
        out[tiles++] = (struct cuda_plan_tile){.first = i, .rows = 1, .keys = keys};
    }
    return tiles;
}

static uint32_t segments_of(uint32_t keys)
{
    return (keys + CUDA_PLAN_SEGMENT - 1) / CUDA_PLAN_SEGMENT;
}

uint32_t cuda_plan_splits(uint32_t blocks, uint32_t processors, uint32_t keys_max,
                          uint64_t segment_bytes, uint64_t partial_bytes)
{
    const uint32_t segments = segments_of(keys_max);
    const uint32_t wanted = 4 * processors; /* two blocks a processor at a time, two rounds */
    if (blocks == 0 || blocks >= wanted || segments < 2 || segment_bytes * segments > partial_bytes)
        return 1;
    uint32_t splits = (wanted + blocks - 1) / blocks;
    if (splits > segments)
        splits = segments;
    /* No part is empty. */
    const uint32_t each = (segments + splits - 1) / splits;
    return (segments + each - 1) / each;
}

uint32_t cuda_plan_split_segments(uint32_t keys_max, uint32_t splits)
{
    return (segments_of(keys_max) + splits - 1) / splits;
}

struct cuda_plan_run cuda_plan_copy(const struct pages_copy_args *args, uint32_t index)
{
    struct cuda_plan_run run = {
        .to = args->to_pages[index], .from = args->from_pages[index], .count = 1};
    while (index + run.count < args->count &&
           args->to_pages[index + run.count] == run.to + run.count &&
           args->from_pages[index + run.count] == run.from + run.count)
        run.count++;
    return run;
}
