/* cuda_step: what the arrays of a step are on a device: one area at a fixed address, one copy.
 *
 * Owns:     nothing; memory is cuda_backend's.
 * Thread:   the engine thread.
 * Cost:     O(rows + pages) on the host and one copy from pinned memory; no allocation, no wait but
 *           for a copy of the step before that is still under way.
 * Not here: graphs of launches (cuda_graph), the arithmetic of rows and works (cuda_plan, _tiles).
 *
 * The area, for step->rows and step->logit_rows padded to what is launched (cuda_graph_bucket):
 *     head | tokens | positions | logit_row | rows, plan of all | … of the wanted | page tables
 * Places depend on the padded counts alone, so that a graph of launches finds the next step's
 * there. What changes from step to step without changing a launch is in the head. Rows behind the
 * last have token 0, position CUDA_PLAN_NONE among `rows` (0 among positions) and no work: written
 * to no page, read by nobody.
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

/* Rows that attention goes over: all, and those that want logits, which the last layer computes. */
enum { CUDA_STEP_ALL, CUDA_STEP_WANTED, CUDA_STEP_SETS };

struct cuda_step_head {
    uint32_t rows; /* true counts */
    uint32_t logit_rows;
};

/* Where arrays begin, in bytes from the area's start. */
struct cuda_step_form {
    uint32_t rows[CUDA_STEP_SETS]; /* padded */
    size_t tokens;
    size_t positions;
    size_t logit_row;
    size_t row[CUDA_STEP_SETS];
    size_t plan[CUDA_STEP_SETS]; /* cuda_tiles: of attention */
    size_t tables;               /* the last: as many entries as are used */
};
void cuda_step_form(struct cuda_step_form *out, uint32_t rows, uint32_t wanted,
                    uint32_t processors);

/* A set as kernels are launched over it. */
struct cuda_step_set {
    uint32_t rows;                   /* padded */
    uint32_t works;                  /* blocks of attention over one KV head */
    bool has_states;                 /* that leave states, which are folded */
    const struct cuda_plan_row *row; /* [rows], on the device, as is: */
    const struct cuda_tiles_head *plan;
};

/* What bounds the parts of attention. */
struct cuda_step_room {
    uint32_t processors;
    uint32_t tables_max;
    uint64_t split_bytes;
};

/* Rows of the wanted set: none when every row wants logits, in its place: then all are one set. */
uint32_t cuda_step_wanted(const struct kernels_step *step);

/* Fills the area on the host, and of each set `rows`, `works` and `has_states`. Returns the bytes
 * to be sent, or 0 when the tables have more than tables_max entries. */
size_t cuda_step_fill(const struct cuda_step_form *form, const struct kernels_step *step,
                      const struct cuda_step_room *room, char *area, struct cuda_step_set *sets);

/* The step that runs, or ran last. */
struct cuda_step {
    char *host; /* the area, pinned */
    char *area; /* and on the device */
    struct cuda_step_form form;
    struct cuda_step_set sets[CUDA_STEP_SETS];
    const uint32_t *tables; /* on the device */
    uint32_t logits_room;   /* logit_rows_max of the step */
    uint32_t heads;         /* that attention is planned for, … */
    uint32_t window;        /* … and the window; 0: for any */
    bool is_padded;
    bool is_running; /* between begin and end of cuda_step_run */
    bool is_sending; /* perhaps: nobody has waited since */
};

struct cuda_backend;

/* As kernels_step_run: the arrays of `step` go to the device, then forward launches what it
 * computes, or a graph does what it launched in an earlier step. */
enum status cuda_step_run(struct cuda_backend *backend, const struct kernels_step *step,
                          void (*forward)(void *context), void *context);
/* Takes the area. NO_MEMORY, UNAVAILABLE. */
enum status cuda_step_open(struct cuda_backend *backend);
/* The arrays alone, for operations one by one, over exactly these rows. LIMIT: more pages than
 * tables_max. */
enum status cuda_step_begin(struct cuda_backend *backend, const struct kernels_step *step);

/* Rows to launch an operation over, for `rows` of the step that runs; outside of one, `rows`. */
uint32_t cuda_step_rows(const struct cuda_backend *backend, uint32_t rows);
/* The step's arrays on the device. */
const uint32_t *cuda_step_tokens(const struct cuda_backend *backend);
const uint32_t *cuda_step_positions(const struct cuda_backend *backend);
const uint32_t *cuda_step_logit_row(const struct cuda_backend *backend);

#ifdef __cplusplus
}
#endif
