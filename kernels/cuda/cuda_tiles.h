/* cuda_tiles: attention's launch arithmetic: rows in tiles, and which block reads which keys.
 *
 * Owns:     nothing; a plan is a block of memory of cuda_tiles_bytes, its twin on the device alike.
 * Thread:   any.
 * Cost:     O(rows + works); no allocation.
 * Not here: launching and the arithmetic itself (cuda_attention.cu); plain C, so that every build
 *           tests it.
 *
 * A work is one block of threads for each KV head: a tile of rows over whole segments of keys. Rows
 * of one sequence make a tile; where several sequences begin with the same pages, one work reads
 * those for all of them, and each goes on by itself. Segments that a window hides from all of a
 * tile's rows are in no work. Works are cut so that the device is full. All this is time alone: a
 * segment's state comes from an empty one, and states are folded in their order, whoever computed
 * them.
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
    uint32_t first; /* of its rows, which stand one behind the other in the plan */
    uint32_t rows;
    uint32_t begin; /* segments [begin, end) of keys */
    uint32_t end;
    uint32_t keys;   /* none of its rows sees more, nor of its segments has more */
    uint32_t least;  /* position of the row that comes first */
    uint32_t common; /* segments that the tile before it reads from the same pages: for planning */
    uint32_t is_whole; /* it has all segments that its rows see: no states are left */
};

struct cuda_tiles_row {
    uint32_t row;    /* of the batch */
    uint32_t states; /* its segment s leaves state `states` + s − `segment`; NONE: it leaves none */
    uint32_t segment; /* those before it are hidden behind the window */
};

/* What a plan begins with; works and rows follow. */
struct cuda_tiles_head {
    uint32_t works;
    uint32_t rows;
    uint32_t states; /* of one head, of all rows */
    uint32_t bytes;  /* of the plan: what must be sent */
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
    uint32_t window;                       /* 0, or none of the layers looks back further */
    uint32_t group;                        /* query heads over a KV head */
    uint32_t kv_heads;
    uint32_t processors;
    uint64_t
        states_max; /* of one head, that there is memory for; without enough, works are whole */
};

/* Of the greatest plan. */
size_t cuda_tiles_bytes(uint32_t rows_max, uint32_t processors);
void cuda_tiles_plan(const struct cuda_tiles_args *args, struct cuda_tiles_head *out);

/* Blocks to launch for so many works: one of few counts, so that a captured launch serves again;
 * those without a work leave at once. */
uint32_t cuda_tiles_bucket(uint32_t works);

/* Keys that a plan reads, of one KV head. */
uint64_t cuda_tiles_keys(const struct cuda_tiles_head *head);

#ifdef __cplusplus
}
#endif
