/* kernels_step: one forward pass, as a machine is told of it before its first operation.
 *
 * Owns:     nothing.
 * Thread:   as kernels.h says.
 * Cost:     on processors that of `forward`. On a device: one copy of what the step's arrays say to
 *           places that never move, and launches; kernels_step_end alone waits for the work.
 * Not here: what `forward` computes (engine/models/model).
 */
#pragma once

#include "kernels/kernels.h"

struct kernels_step {
    uint32_t rows;
    const uint32_t *tokens;                       /* [rows] */
    struct kv_rows kv;                            /* of all rows */
    const struct attention_groups *groups;        /* NULL = none */
    const struct attention_groups *wanted_groups; /* of rows as logit_row has them; NULL = none */
    uint32_t logit_rows;
    uint32_t logit_rows_max;   /* for so many there is room in what forward makes of them */
    const uint32_t *logit_row; /* [logit_rows] indexes of rows whose logits are wanted */
    uint32_t heads;            /* query heads of attention, those of this rank */
    uint32_t window;           /* 0, or attention of no layer has a greater one or none */
    uint32_t layers;           /* the first so many alone; 0 = all */
    bool has_sums;             /* over ranks, all of which run it; a draft model has none */
};

/* Calls forward(context), whose operations are over this step's rows: their tokens, positions,
 * order and kv are this step's `tokens`, `kv` and `logit_row`. Attention over rows that want logits
 * (is_wanted) has theirs, in the order of logit_row. A device has its own copies of all these, and
 * may run what it launched in an earlier step of the same forward, context and shape instead of
 * calling. LIMIT: more pages than kernels_options.tables_max. UNAVAILABLE as kernels_step_end. */
enum status kernels_step_run(struct kernels *kernels, const struct kernels_step *step,
                             void (*forward)(void *context), void *context);

/* Waits for the work asked before, but for copies of pages. UNAVAILABLE, with what failed, from a
 * device's first failure on: nothing is computed after that. */
enum status kernels_step_end(struct kernels *kernels);
