/* batch: the rows of one step, gathered from sequences, in the form that the model reads.
 *
 * Owns:     the row arrays of one step, and which of its sequences begin with the same pages.
 * Thread:   engine thread only.
 * Cost:     O(rows + pages of its sequences), with O(log sequences) comparisons for each sequence;
 *           no allocation after batch_init.
 * Not here: which sequence gets how many rows (scheduler), the arithmetic (model).
 */
#pragma once

#include <stdint.h>

#include "engine/kv/kv_open.h"
#include "engine/kv/kv_pool.h"
#include "engine/models/model.h"

struct batch {
    uint32_t rows_max;
    uint32_t logit_rows_max;
    uint32_t sequences_max;
    uint32_t sequences;           /* added so far */
    uint32_t *tokens;             /* [rows_max] */
    uint32_t *sequence;           /* [rows_max] its number in the batch */
    uint32_t *position;           /* [rows_max] in its sequence */
    uint32_t *open_of;            /* [rows_max] as kv_open_find */
    uint32_t *logit_row;          /* [logit_rows_max] rows with logits */
    const uint32_t **page_tables; /* [1 + window_units][sequences_max] as kv_rows */
    uint32_t *windows;            /* [window_units][sequences_max][pages_max]; NULL without */
    uint32_t window_units;
    uint32_t pages_max;  /* of a sequence */
    uint32_t *first_row; /* [sequences_max] */
    uint32_t *sorted; /* [sequences_max] sequences ordered by the pages that all their rows see */
    uint32_t *order;  /* [rows_max] as attention_groups */
    uint32_t *shared; /* [rows_max] as attention_groups */
    struct attention_groups groups;
    struct kv_open *open;     /* as given to batch_begin */
    struct model_batch model; /* points into the arrays above */
};

/* NO_MEMORY. */
enum status batch_init(struct batch *batch, uint32_t rows_max, uint32_t logit_rows_max,
                       uint32_t sequences_max);
/* Makes room for the window units of sequences of at most `context` tokens; needed where the layout
 * of the pool has some. NO_MEMORY. */
enum status batch_init_windows(struct batch *batch, const struct kv_layout *layout,
                               uint32_t context);
void batch_deinit(struct batch *batch);

/* Empties the batch. `open` may be NULL when the pool's type has no open groups. */
void batch_begin(struct batch *batch, const struct kv_pool *pool, struct kv_open *open);

struct batch_part {
    uint32_t place;         /* slot of the sequence, for its open groups */
    uint64_t serial;        /* of the sequence: no two have the same */
    const uint32_t *tokens; /* of the whole sequence */
    uint32_t first;         /* position of the first row */
    uint32_t rows;
    uint32_t logits_from; /* rows at this position and later need logits */
    const page_id *pages; /* [page_count], must outlive the step */
    uint32_t page_count;
    const struct engine_domain *visible; /* [visible_count] of the request */
    uint32_t visible_count;
};

/* Adds rows of one sequence. Asserts that they fit in the batch and in its pages, that every page
 * it will read is visible to it, and that pages inside the window of its rows have their window
 * units. Returns the index of its first row of logits. */
uint32_t batch_add(struct batch *batch, const struct kv_pool *pool, const struct batch_part *part);

/* Called after the last batch_add. Finds sequences that begin with the same pages, so
 * that attention reads those pages once. Without this call the step takes longer and
 * gives the same bits. */
void batch_group(struct batch *batch);
