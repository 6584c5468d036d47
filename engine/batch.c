#include "engine/batch.h"

#include "config/base/mem.h"

enum status batch_init(struct batch *batch, uint32_t rows_max, uint32_t logit_rows_max,
                       uint32_t sequences_max)
{
    *batch = (struct batch){
        .rows_max = rows_max, .logit_rows_max = logit_rows_max, .sequences_max = sequences_max};
    batch->tokens = mem_zalloc(rows_max, sizeof(*batch->tokens));
    batch->sequence = mem_zalloc(rows_max, sizeof(*batch->sequence));
    batch->position = mem_zalloc(rows_max, sizeof(*batch->position));
    batch->logit_row = mem_zalloc(logit_rows_max, sizeof(*batch->logit_row));
    batch->page_tables = mem_zalloc(sequences_max, sizeof(*batch->page_tables));
    if (batch->tokens == NULL || batch->sequence == NULL || batch->position == NULL ||
        batch->logit_row == NULL || batch->page_tables == NULL) {
        batch_deinit(batch);
        FAIL(STATUS_NO_MEMORY, "no memory for a batch of %u rows", rows_max);
    }
    return STATUS_OK;
}

void batch_deinit(struct batch *batch)
{
    mem_free(batch->tokens);
    mem_free(batch->sequence);
    mem_free(batch->position);
    mem_free(batch->logit_row);
    mem_free(batch->page_tables);
    *batch = (struct batch){0};
}

void batch_begin(struct batch *batch, const struct kv_pool *pool)
{
    batch->sequences = 0;
    batch->model = (struct model_batch){
        .tokens = batch->tokens,
        .kv = {.layout = &pool->layout,
               .pages = pool->memory,
               .sequence = batch->sequence,
               .position = batch->position,
               .page_tables = batch->page_tables},
        .logit_row = batch->logit_row,
    };
}

uint32_t batch_add(struct batch *batch, const struct kv_pool *pool, const struct batch_part *part)
{
    struct model_batch *model = &batch->model;
    uint32_t logits_first = model->logit_rows;
    ASSERT(part->rows > 0);
    ASSERT(part->rows <= batch->rows_max - model->rows);
    ASSERT(batch->sequences < batch->sequences_max);
    ASSERT(kv_pool_pages_for(pool, part->first + part->rows) <= part->page_count);
    kv_pool_assert_visible(pool, part->pages, part->page_count, part->visible, part->visible_count);
    batch->page_tables[batch->sequences] = part->pages;
    for (uint32_t i = 0; i < part->rows; i++) {
        uint32_t row = model->rows++;
        uint32_t position = part->first + i;
        batch->tokens[row] = part->tokens[position];
        batch->sequence[row] = batch->sequences;
        batch->position[row] = position;
        if (position < part->logits_from)
            continue;
        ASSERT(model->logit_rows < batch->logit_rows_max);
        batch->logit_row[model->logit_rows++] = row;
    }
    batch->sequences++;
    return logits_first;
}
