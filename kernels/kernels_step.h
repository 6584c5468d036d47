/* kernels_step: one forward pass, as a machine learns of it before its first operation.
 *
 * Owns:     nothing.
 * Thread:   as kernels.h says.
 * Cost:     on processors the cost of `forward`. On a device: one copy of the step's arrays to
 *           fixed addresses, and launches; only kernels_step_end waits for the work.
 * Not here: what `forward` computes (engine/models/model).
 */
#pragma once

#include "kernels/kernels.h"

/* Kinds of layers that a step plans attention for. */
enum { KERNELS_STEP_KINDS = 2 };

struct kernels_step {
    uint32_t rows;
    const uint32_t *tokens;                /* [rows] */
    struct kv_rows kv;                     /* of all rows */
    const struct attention_groups *groups; /* NULL: none */
    /* of the rows in logit_row, in that order; NULL: none */
    const struct attention_groups *wanted_groups;
    uint32_t logit_rows;
    uint32_t logit_rows_max;   /* what forward writes has room for this many logit rows */
    const uint32_t *logit_row; /* [logit_rows] indexes of the rows whose logits are wanted */
    uint32_t heads;            /* query heads of attention in this rank */
    /* [0]: the largest window of any layer; 0 if some layer has none. [1]: the window of the layers
     * that look back less, exactly; 0 if all layers are of one kind. */
    uint32_t window[KERNELS_STEP_KINDS];
    uint32_t layers; /* run only this many first layers; 0: all */
    bool has_sums;   /* forward sums over the ranks, all of which run it; false for a draft model */
};

/* Calls forward(context), whose operations work on this step's rows: their tokens, positions, order
 * and kv are this step's `tokens`, `kv` and `logit_row`. Attention over rows that want logits
 * (is_wanted) uses the rows in the order of logit_row. A device has its own copies of all these.
 * Instead of calling forward it may replay the launches of an earlier step with the same forward,
 * context and shape. LIMIT: more pages than kernels_options.tables_max. UNAVAILABLE as
 * kernels_step_end. */
enum status kernels_step_run(struct kernels *kernels, const struct kernels_step *step,
                             void (*forward)(void *context), void *context);

/* Waits for the work queued before, except copies of pages. UNAVAILABLE, with the cause, from a
 * device's first failure on; after that nothing is computed. */
enum status kernels_step_end(struct kernels *kernels);
