#include "kernels/cuda/cuda_plan.h"

#include <string.h>

/* Writes the window units of pages [begin, end) of a sequence, page by page. */
static void plan_windows(const struct kv_rows *kv, uint32_t sequence, uint32_t begin, uint32_t end,
                         uint32_t *tables)
{
    for (uint32_t page = begin; page < end; page++)
        for (uint32_t unit = 1; unit <= kv->layout->window_units; unit++)
            *tables++ = kv->page_tables[(size_t)unit * kv->sequences + sequence][page];
}

uint32_t cuda_plan_rows(const struct kv_rows *kv, uint32_t rows, struct cuda_plan_row *out,
                        uint32_t *tables, uint32_t tables_max)
{
    const struct kv_layout *layout = kv->layout;
    uint32_t used = 0;
    uint32_t next;
    for (uint32_t first = 0; first < rows; first = next) {
        const uint32_t sequence = kv->sequence[first];
        uint32_t least = UINT32_MAX; /* position */
        uint32_t last = 0;
        for (next = first; next < rows && kv->sequence[next] == sequence; next++) {
            least = kv->position[next] < least ? kv->position[next] : least;
            last = kv->position[next] > last ? kv->position[next] : last;
        }
        const uint32_t pages = last / layout->page_tokens + 1;
        const uint32_t begin = kernels_window_first(layout->window, least) / layout->page_tokens;
        const uint64_t entries = pages + (uint64_t)(pages - begin) * layout->window_units;
        if (entries > tables_max - used)
            return CUDA_PLAN_NONE;
        for (uint32_t row = first; row < next; row++)
            out[row] =
                (struct cuda_plan_row){.position = kv->position[row],
                                       .table = used,
                                       .window = used + pages - begin * layout->window_units};
        memcpy(tables + used, kv->page_tables[sequence], pages * sizeof *tables);
        plan_windows(kv, sequence, begin, pages, tables + used + pages);
        used += (uint32_t)entries;
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
