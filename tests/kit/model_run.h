/* model_run: a model with its kernels and KV pages, run by tests without an engine.
 *
 * Owns:     kernels, model, pages. Each sequence has its own pages, scattered over the pool.
 * Thread:   one.
 * Cost:     as model_forward; logits of every row are computed unless the test names the rows.
 * Not here: sampling, choosing which pages are shared.
 */
#pragma once

#include "engine/models/model.h"

struct model_run {
    struct kernels *kernels;
    struct model *model;
    struct kv_layout layout;
    uint32_t rows_max;
    uint32_t sequences;
    uint32_t pages_each;
    void *pages;
    void *open;                   /* an open group for each page, when the type has open groups */
    uint32_t *page_ids;           /* [sequences][pages_each] */
    const uint32_t **page_tables; /* [sequences] */
    const struct attention_groups *groups; /* of the next batch; a test that shares pages sets it */
    const uint32_t *logit_row;             /* rows of the next batch that want logits; NULL: all */
    uint32_t logit_rows;
};

struct model_run_options {
    const char *isa;
    uint32_t threads;
    enum kv_type kv_type;
    enum model_weights weights;
    uint32_t context; /* as in model_options; 0: the model's own */
    bool has_states;  /* as in model_options */
    uint32_t rows_max;
    uint32_t sequences;
    uint32_t tokens_max; /* of a sequence */
};

/* Opens all, or returns the first failure and holds nothing. */
enum status model_run_open(struct model_run *run, const struct gguf *gguf,
                           const struct model_run_options *options);
/* The same with any source, which must stay open for as long. */
enum status model_run_open_source(struct model_run *run, const struct model_source *source,
                                  const struct model_run_options *options);
void model_run_close(struct model_run *run);

/* Runs one batch of any rows. Returns logits [rows][vocab] of all of them, or of those in
 * run->logit_row. */
const float *model_run_batch(struct model_run *run, uint32_t rows, const uint32_t *sequences,
                             const uint32_t *positions, const uint32_t *tokens);

/* Runs tokens of one sequence from `position` on, at most rows_max. Returns the logits of all of
 * them. */
const float *model_run_chunk(struct model_run *run, uint32_t sequence, uint32_t position,
                             const uint32_t *tokens, uint32_t count);

/* Returns ln of the probability that a row of logits gives to `token`, summed in double. */
double model_run_logprob(const struct model_run *run, const float *logits, uint32_t token);
/* Returns the first index of the greatest logit. */
uint32_t model_run_argmax(const struct model_run *run, const float *logits);
