/* cuda_plan: launch arithmetic: a batch's rows, page tables and copies as the device reads them.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(rows + pages); no allocation.
 * Not here: launching (cuda_backend, cuda_*.cu). Plain C, so that every build tests it.
 */
#pragma once

#include <stdint.h>

#include "kernels/cuda/cuda_both.h"
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* most rows × heads over one KV head in one block of attention */
    CUDA_PLAN_QUERIES = ATTENTION_DEVICE_HEADS,
    CUDA_PLAN_KEYS = 64,     /* keys of one softmax block */
    CUDA_PLAN_SEGMENT = 256, /* keys from an empty state, merged as a left fold */
    CUDA_PLAN_NONE = 0x7fffffff
};

/* A row on the device: its token's position, and the indexes of its sequence's page tables. The
 * unit of page p is tables[table + p], and its window unit w of n (the first is 0) is tables[window
 * + p × n + w]. `window` may be negative modulo 2^32, since that table begins with a later page. */
struct cuda_plan_row {
    uint32_t position;
    uint32_t table;
    uint32_t window;
};

/* Returns the index of the unit of group `group` of page `page` in the tables. */
static inline CUDA_BOTH uint32_t cuda_plan_entry(const struct cuda_plan_row *row, uint32_t group,
                                                 uint32_t window_units, uint32_t page)
{
    return group == 0 ? row->table + page : row->window + page * window_units + group - 1;
}

/* Writes rows [rows], and for each run of rows of one sequence its page table, as far as the run's
 * greatest position, then the table of its window units, from the first page that attention of the
 * run's least position touches. The tables follow each other. Returns the entries used, or
 * CUDA_PLAN_NONE when they exceed tables_max. */
uint32_t cuda_plan_rows(const struct kv_rows *kv, uint32_t rows, struct cuda_plan_row *out,
                        uint32_t *tables, uint32_t tables_max);

/* Pages that are adjacent on both sides: one copy. */
struct cuda_plan_run {
    uint32_t to;
    uint32_t from;
    uint32_t count;
};
/* Returns the run that begins at page `index` of the batch. */
struct cuda_plan_run cuda_plan_copy(const struct pages_copy_args *args, uint32_t index);

#ifdef __cplusplus
}
#endif
