/* cuda_tiles: attention's launch arithmetic: rows in tiles, and which block reads which keys.
 *
 * Owns:     nothing; a plan is a block of memory of cuda_tiles_bytes, with the same form on the
 *           device.
 * Thread:   any.
 * Cost:     O(rows + works); no allocation.
 * Not here: launching and the arithmetic itself (cuda_attention.cu). Plain C, so that every build
 *           tests it.
 *
 * A work is one block of threads for each KV head: a tile of rows over whole segments of keys. Rows
 * of one sequence make a tile. Where several sequences begin with the same pages, one work reads
 * those for all of them, and each sequence continues alone. Segments that a window hides from all
 * of a tile's rows are in no work. Works are divided so that the device is full. All this changes
 * the time only: a segment's state starts empty, and states are folded in order, whichever block
 * computed them.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda_both.h"
#include "kernels/cuda/cuda_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CUDA_TILES_NONE UINT32_MAX
enum { CUDA_TILES_STATE = 2 }; /* floats before a state's dimensions: maximum, sum */

struct cuda_tiles_work {
    uint32_t first; /* index of its first row; its rows follow each other in the plan */
    uint32_t rows;
    uint32_t begin; /* segments [begin, end) of keys */
    uint32_t end;
    uint32_t keys;     /* upper bound of the keys that its rows see in these segments */
    uint32_t least;    /* the lowest position among its rows */
    uint32_t common;   /* segments that the tile before reads from the same pages; for planning */
    uint32_t is_whole; /* it has all segments that its rows see, so it leaves no states */
};

struct cuda_tiles_row {
    uint32_t row; /* of the batch */
    /* segment s of the row leaves state `states` + s − `segment`; NONE: it leaves none */
    uint32_t states;
    uint32_t segment; /* first segment that the window does not hide */
};

/* The beginning of a plan; works and rows follow. */
struct cuda_tiles_head {
    uint32_t works;
    uint32_t rows;
    uint32_t states; /* of one head, over all rows */
    uint32_t bytes;  /* bytes of the plan, to send */
};

static inline CUDA_BOTH const struct cuda_tiles_work *
cuda_tiles_works(const struct cuda_tiles_head *head)
{
    return (const struct cuda_tiles_work *)(head + 1);
}

static inline CUDA_BOTH const struct cuda_tiles_row *
cuda_tiles_rows(const struct cuda_tiles_head *head)
{
    return (const struct cuda_tiles_row *)(cuda_tiles_works(head) + head->works);
}

struct cuda_tiles_args {
    const struct cuda_plan_row *rows; /* [count] */
    uint32_t count;
    const struct attention_groups *groups; /* NULL: no two sequences have pages in common */
    uint32_t window; /* the largest window of any layer; 0 if some layer has none */
    uint32_t group;  /* query heads over a KV head */
    uint32_t kv_heads;
    uint32_t processors;
    uint64_t
        /* states of one head that there is memory for; if it is too little, works are not divided
         */
        states_max;
};

/* Returns the bytes of the largest plan. */
size_t cuda_tiles_bytes(uint32_t rows_max, uint32_t processors);
void cuda_tiles_plan(const struct cuda_tiles_args *args, struct cuda_tiles_head *out);

/* Returns the blocks to launch for `works`: one of few counts, so that a captured launch can be
 * replayed. Blocks without a work return at once. */
uint32_t cuda_tiles_bucket(uint32_t works);

/* Returns the keys that a plan reads for one KV head. */
uint64_t cuda_tiles_keys(const struct cuda_tiles_head *head);

#ifdef __cplusplus
}
#endif
