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
