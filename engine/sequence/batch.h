/* batch: the rows of one step, gathered from sequences, in the form that the model reads.
 *
 * Owns:     the row arrays of one step, and which of its sequences begin with the same pages.
 * Thread:   engine thread only.
 * Cost:     O(rows + pages of the sequences in it), and a logarithm of comparisons for each; no
 *           allocation after batch_init.
 * Not here: who gets how many rows (scheduler), the arithmetic (model).
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
    uint32_t sequences;
    uint32_t *tokens;             /* [rows_max] */
    uint32_t *sequence;           /* [rows_max] */
    uint32_t *position;           /* [rows_max] */
    uint32_t *open_of;            /* [rows_max] */
    uint32_t *logit_row;          /* [logit_rows_max] */
    const uint32_t **page_tables; /* [sequences_max] */
    uint32_t *first_row;          /* [sequences_max] */
    uint32_t *sorted; /* [sequences_max] sequences by the pages that all their rows see */
    uint32_t *order;  /* [rows_max] */
    uint32_t *shared; /* [rows_max] */
    struct attention_groups groups;
    struct kv_open *open;     /* of batch_begin */
    struct model_batch model; /* points into the arrays above */
};

enum status batch_init(struct batch *batch, uint32_t rows_max, uint32_t logit_rows_max,
                       uint32_t sequences_max);
void batch_deinit(struct batch *batch);

/* `open`: NULL when the pool's type has no open groups. */
void batch_begin(struct batch *batch, const struct kv_pool *pool, struct kv_open *open);

struct batch_part {
    uint32_t place;         /* of the sequence's open groups */
    uint64_t serial;        /* whose they are: no two sequences have the same */
    const uint32_t *tokens; /* of the whole sequence */
    uint32_t first;         /* position of the first row */
    uint32_t rows;
    uint32_t logits_from; /* rows at this position and later want logits */
    const page_id *pages; /* [page_count], must outlive the step */
    uint32_t page_count;
    const struct engine_domain *visible; /* taken at admission */
    uint32_t visible_count;
};

/* Adds rows of one sequence; asserts that they fit, lie on its pages, and that every page it will
 * read is visible to it. Returns the index of its first row of logits. */
uint32_t batch_add(struct batch *batch, const struct kv_pool *pool, const struct batch_part *part);

/* After the last batch_add: finds the sequences that begin with the same pages, so that attention
 * reads those once. Without this call the step has the same bits and takes longer. */
void batch_group(struct batch *batch);
