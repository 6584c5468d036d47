/* cuda_step: the arrays of a step on a device: one area at a fixed address, one copy.
 *
 * Owns:     nothing; memory is cuda_backend's.
 * Thread:   the engine thread.
 * Cost:     O(rows + pages) on the host and one copy from pinned memory; no allocation. It waits
 *           only if the previous step's copy still runs.
 * Not here: graphs of launches (cuda_graph), the arithmetic of rows and works (cuda_plan, _tiles).
 *
 * The area, for step->rows and step->logit_rows padded to the launched counts (cuda_graph_bucket):
 *     head | tokens | positions | logit_row | rows, plans of all | … of the wanted | page tables
 * There are two sets of rows: all rows, and the wanted ones, which want logits. A set has a plan of
 * attention for each kind of layers (kernels_step.window).
 * Offsets depend on the padded counts alone, so that a replayed graph finds the next step's arrays.
 * The head holds what changes between steps without changing a launch. Padding rows have token 0,
 * position CUDA_PLAN_NONE in `rows` (0 in positions) and no work: they are written to no page and
 * never read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/cuda_plan.h"
#include "kernels/cuda/cuda_tiles.h"
#include "kernels/kernels_step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rows that attention covers: all, and those that want logits, which the last layer computes.
 */
enum { CUDA_STEP_ALL, CUDA_STEP_WANTED, CUDA_STEP_SETS };

struct cuda_step_head {
    uint32_t rows; /* true counts */
    uint32_t logit_rows;
};

/* Offsets of the arrays, in bytes from the area's start. */
struct cuda_step_form {
    uint32_t rows[CUDA_STEP_SETS]; /* padded */
    size_t tokens;
    size_t positions;
    size_t logit_row;
    size_t row[CUDA_STEP_SETS];
    size_t plan[CUDA_STEP_SETS][KERNELS_STEP_KINDS]; /* cuda_tiles: of attention */
    uint32_t kinds;                                  /* of plans that are there: 1 or 2 */
    size_t tables; /* the last array: as many entries as are used */
};
void cuda_step_form(struct cuda_step_form *out, uint32_t rows, uint32_t wanted, uint32_t kinds,
                    uint32_t processors);
/* Returns the kinds of layers that a step plans for. */
static inline uint32_t cuda_step_kinds(const struct kernels_step *step)
{
    return step->window[1] > 0 ? 2 : 1;
}

/* Attention over a set of rows, in layers of one kind. */
struct cuda_step_plan {
    uint32_t works;                      /* blocks of attention over one KV head */
    bool has_states;                     /* some works leave states, which are folded */
    const struct cuda_tiles_head *tiles; /* on the device */
};

/* A set of rows as kernels are launched over it. */
struct cuda_step_set {
    uint32_t rows;                   /* padded */
    const struct cuda_plan_row *row; /* [rows] on the device */
    struct cuda_step_plan plans[KERNELS_STEP_KINDS];
};

/* Bounds for the parts of attention. */
struct cuda_step_room {
    uint32_t processors;
    uint32_t tables_max;
    uint64_t split_bytes;
};

/* Returns the rows of the wanted set. 0 when every row wants logits, in order: then the set of all
 * rows serves. */
uint32_t cuda_step_wanted(const struct kernels_step *step);

/* Fills the area on the host, and `rows`, and `works` and `has_states` of the plans of each set. A
 * second kind whose keys are in window units is planned without groups: rows that have pages in
 * common see different window units of them. Returns the bytes
 * to send, or 0 when the tables have more than tables_max entries. */
size_t cuda_step_fill(const struct cuda_step_form *form, const struct kernels_step *step,
                      const struct cuda_step_room *room, char *area, struct cuda_step_set *sets);

/* The step that runs, or ran last. */
struct cuda_step {
    char *host; /* the area, pinned */
    char *area; /* and on the device */
    struct cuda_step_form form;
    struct cuda_step_set sets[CUDA_STEP_SETS];
    const uint32_t *tables;              /* on the device */
    uint32_t logits_room;                /* logit_rows_max of the step */
    uint32_t heads;                      /* heads that attention is planned for */
    uint32_t window[KERNELS_STEP_KINDS]; /* windows that attention is planned for */
    bool is_padded;
    bool is_running; /* between begin and end of cuda_step_run */
    bool is_sending; /* the last copy may still run */
};

struct cuda_backend;

/* As kernels_step_run: sends the arrays of `step` to the device, then forward launches its
 * operations, or a graph replays those of an earlier step. */
enum status cuda_step_run(struct cuda_backend *backend, const struct kernels_step *step,
                          void (*forward)(void *context), void *context);
/* Allocates the area. NO_MEMORY, UNAVAILABLE. */
enum status cuda_step_open(struct cuda_backend *backend);
/* Sends the arrays alone, for single operations over exactly these rows. LIMIT: more pages than
 * tables_max. */
enum status cuda_step_begin(struct cuda_backend *backend, const struct kernels_step *step);

/* Returns the rows to launch an operation over, for `rows` of the running step; outside of a step,
 * `rows`. */
uint32_t cuda_step_rows(const struct cuda_backend *backend, uint32_t rows);
/* The step's arrays on the device. */
const uint32_t *cuda_step_tokens(const struct cuda_backend *backend);
const uint32_t *cuda_step_positions(const struct cuda_backend *backend);
const uint32_t *cuda_step_logit_row(const struct cuda_backend *backend);

#ifdef __cplusplus
}
#endif
