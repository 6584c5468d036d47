#include "tests/kit/model_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/rng.h"

enum { PAGE_TOKENS = 16, MODEL_RUN_ROWS = 4096 };

/* Shuffles the pages, so that a wrong page number is noticed. */
static void open_tables(struct model_run *run)
{
    uint32_t total = run->sequences * run->pages_each;
    struct rng rng = {42, 0};
    for (uint32_t i = 0; i < total; i++)
        run->page_ids[i] = i;
    for (uint32_t i = total; i > 1; i--) {
        uint32_t j = (uint32_t)rng_below(&rng, i);
        uint32_t held = run->page_ids[i - 1];
        run->page_ids[i - 1] = run->page_ids[j];
        run->page_ids[j] = held;
    }
    for (uint32_t s = 0; s < run->sequences; s++)
        run->page_tables[s] = run->page_ids + (size_t)s * run->pages_each;
}

static enum status open_all(struct model_run *run, const struct model_source *source,
                            const struct model_run_options *options)
{
    struct model_config config;
    struct model_share whole;
    TRY(model_config_read(&config, source));
    TRY(model_share_of(&whole, &config, 0, 1));
    TRY(kernels_create(&run->kernels,
                       &(struct kernels_options){.isa = options->isa,
                                                 .threads = options->threads,
                                                 .rows_max = options->rows_max,
                                                 .cols_max = model_cols_max(&config)}));
    const struct model_options model_options = {.rows_max = options->rows_max,
                                                .logit_rows_max = options->rows_max,
                                                .context = options->context,
                                                .weights = options->weights,
                                                .has_states = options->has_states};
    TRY(model_open_share(&run->model, run->kernels, source, &model_options, &whole));
    TRY(kernels_kv_layout(run->kernels, options->kv_type, PAGE_TOKENS, config.layers,
                          config.kv_heads, config.head_dim, &run->layout));
    run->rows_max = options->rows_max;
    run->sequences = options->sequences;
    run->pages_each = (options->tokens_max + PAGE_TOKENS - 1) / PAGE_TOKENS;
    size_t total = (size_t)run->sequences * run->pages_each;
    run->pages = kernels_buffer_create(run->kernels, total * run->layout.page_bytes);
    run->page_ids = calloc(total, sizeof *run->page_ids);
    run->page_tables = calloc(run->sequences, sizeof *run->page_tables);
    if (run->pages == NULL || run->page_ids == NULL || run->page_tables == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %zu pages", total);
    if (run->layout.open_bytes > 0) {
        run->open = kernels_buffer_create(run->kernels, total * run->layout.open_bytes);
        if (run->open == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for %zu open groups", total);
        memset(run->open, 0xff, total * run->layout.open_bytes);
    }
    /* Fills all pages with NaN, so that a read beyond the last key is noticed. */
    memset(run->pages, 0xff, total * run->layout.page_bytes);
    open_tables(run);
    return STATUS_OK;
}

enum status model_run_open(struct model_run *run, const struct gguf *gguf,
                           const struct model_run_options *options)
{
    return model_run_open_source(run, &(struct model_source){.gguf = gguf}, options);
}

enum status model_run_open_source(struct model_run *run, const struct model_source *source,
                                  const struct model_run_options *options)
{
    memset(run, 0, sizeof *run);
    ASSERT(options->rows_max <= MODEL_RUN_ROWS);
    enum status status = open_all(run, source, options);
    if (status != STATUS_OK)
        model_run_close(run);
    return status;
}

void model_run_close(struct model_run *run)
{
    model_close(run->model);
    if (run->pages != NULL)
        kernels_buffer_destroy(run->kernels, run->pages);
    if (run->open != NULL)
        kernels_buffer_destroy(run->kernels, run->open);
    if (run->kernels != NULL)
        kernels_destroy(run->kernels);
    free(run->page_ids);
    free(run->page_tables);
    memset(run, 0, sizeof *run);
}

const float *model_run_batch(struct model_run *run, uint32_t rows, const uint32_t *sequences,
                             const uint32_t *positions, const uint32_t *tokens)
{
    static uint32_t all[MODEL_RUN_ROWS];
    static uint32_t open_of[MODEL_RUN_ROWS];
    for (uint32_t i = 0; i < rows; i++) {
        all[i] = i;
        open_of[i] = run->page_tables[sequences[i]][positions[i] / PAGE_TOKENS];
        ASSERT(positions[i] < run->pages_each * PAGE_TOKENS);
    }
    struct model_batch batch = {.rows = rows,
                                .tokens = tokens,
                                .kv = {.layout = &run->layout,
                                       .pages = run->pages,
                                       .sequence = sequences,
                                       .position = positions,
                                       .page_tables = run->page_tables,
                                       .open = run->open,
                                       .open_of = open_of},
                                .groups = run->groups,
                                .logit_rows = rows,
                                .logit_row = all};
    if (run->logit_row != NULL) {
        batch.logit_rows = run->logit_rows;
        batch.logit_row = run->logit_row;
    }
    return model_forward(run->model, &batch);
}

const float *model_run_chunk(struct model_run *run, uint32_t sequence, uint32_t position,
                             const uint32_t *tokens, uint32_t count)
{
    static uint32_t sequences[MODEL_RUN_ROWS];
    static uint32_t positions[MODEL_RUN_ROWS];
    ASSERT(count <= run->rows_max);
    for (uint32_t i = 0; i < count; i++) {
        sequences[i] = sequence;
        positions[i] = position + i;
    }
    return model_run_batch(run, count, sequences, positions, tokens);
}

uint32_t model_run_argmax(const struct model_run *run, const float *logits)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < model_config(run->model)->vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

double model_run_logprob(const struct model_run *run, const float *logits, uint32_t token)
{
    double most = logits[model_run_argmax(run, logits)];
    double sum = 0;
    for (uint32_t i = 0; i < model_config(run->model)->vocab; i++)
        sum += exp((double)logits[i] - most);
    return (double)logits[token] - most - log(sum);
}
