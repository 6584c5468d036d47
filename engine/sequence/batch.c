#include "engine/sequence/batch.h"

#include <string.h>

#include "config/base/mem.h"

/* Fewer common keys are not worth a tile of several sequences. Measured with bench_attention, one
 * thread: 2 to 16 sequences with one common block take 0.85 to 0.99 times as long as without. */
enum { BATCH_SHARED_KEYS_MIN = 64 };

enum status batch_init(struct batch *batch, uint32_t rows_max, uint32_t logit_rows_max,
                       uint32_t sequences_max)
{
    *batch = (struct batch){
        .rows_max = rows_max, .logit_rows_max = logit_rows_max, .sequences_max = sequences_max};
    batch->tokens = mem_zalloc(rows_max, sizeof(*batch->tokens));
    batch->sequence = mem_zalloc(rows_max, sizeof(*batch->sequence));
    batch->position = mem_zalloc(rows_max, sizeof(*batch->position));
    batch->open_of = mem_zalloc(rows_max, sizeof(*batch->open_of));
    batch->logit_row = mem_zalloc(logit_rows_max, sizeof(*batch->logit_row));
    batch->page_tables = mem_zalloc(sequences_max, sizeof(*batch->page_tables));
    batch->first_row = mem_zalloc(sequences_max, sizeof(*batch->first_row));
    batch->sorted = mem_zalloc(sequences_max, sizeof(*batch->sorted));
    batch->order = mem_zalloc(rows_max, sizeof(*batch->order));
    batch->shared = mem_zalloc(rows_max, sizeof(*batch->shared));
    if (batch->tokens == NULL || batch->sequence == NULL || batch->position == NULL ||
        batch->open_of == NULL || batch->logit_row == NULL || batch->page_tables == NULL ||
        batch->first_row == NULL || batch->sorted == NULL || batch->order == NULL ||
        batch->shared == NULL) {
        batch_deinit(batch);
        FAIL(STATUS_NO_MEMORY, "no memory for a batch of %u rows", rows_max);
    }
    return STATUS_OK;
}

enum status batch_init_windows(struct batch *batch, const struct kv_layout *layout,
                               uint32_t context)
{
    const size_t windows = (size_t)layout->window_units * batch->sequences_max;
    if (windows == 0)
        return STATUS_OK;
    batch->window_units = layout->window_units;
    batch->pages_max = (context + layout->page_tokens - 1) / layout->page_tokens;
    mem_free(batch->page_tables);
    batch->page_tables = mem_zalloc(batch->sequences_max + windows, sizeof(*batch->page_tables));
    batch->windows = mem_zalloc(windows * batch->pages_max, sizeof(*batch->windows));
    if (batch->page_tables == NULL || batch->windows == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the window units of %u sequences",
             batch->sequences_max);
    for (size_t i = 0; i < windows; i++)
        batch->page_tables[batch->sequences_max + i] = batch->windows + i * batch->pages_max;
    return STATUS_OK;
}

void batch_deinit(struct batch *batch)
{
    mem_free(batch->tokens);
    mem_free(batch->sequence);
    mem_free(batch->position);
    mem_free(batch->open_of);
    mem_free(batch->logit_row);
    mem_free(batch->page_tables);
    mem_free(batch->windows);
    mem_free(batch->first_row);
    mem_free(batch->sorted);
    mem_free(batch->order);
    mem_free(batch->shared);
    *batch = (struct batch){0};
}

void batch_begin(struct batch *batch, const struct kv_pool *pool, struct kv_open *open)
{
    ASSERT(open != NULL || pool->layout.open_bytes == 0);
    ASSERT(pool->layout.window_units == batch->window_units);
    batch->sequences = 0;
    batch->open = pool->layout.open_bytes > 0 ? open : NULL;
    if (batch->open != NULL)
        kv_open_begin(batch->open);
    batch->model = (struct model_batch){
        .tokens = batch->tokens,
        .kv = {.layout = &pool->layout,
               .pages = pool->memory,
               .sequence = batch->sequence,
               .position = batch->position,
               .page_tables = batch->page_tables,
               .open = batch->open != NULL ? batch->open->memory : NULL,
               .open_of = batch->open_of,
               .sequences = batch->sequences_max},
        .logit_row = batch->logit_row,
    };
}

/* `keys`, rounded down to whole blocks. */
static uint32_t group_blocks(uint32_t keys)
{
    return keys / ATTENTION_BLOCK_KEYS * ATTENTION_BLOCK_KEYS;
}

/* Whole pages within whole blocks that every row of a sequence sees: what it may share. */
static uint32_t group_pages(const struct batch *batch, uint32_t sequence)
{
    uint32_t keys = batch->position[batch->first_row[sequence]] + 1;
    return group_blocks(keys) / batch->model.kv.layout->page_tokens;
}

/* Pages at the start that two sequences have in common. */
static uint32_t group_common(const struct batch *batch, uint32_t a, uint32_t b)
{
    const uint32_t *left = batch->page_tables[a];
    const uint32_t *right = batch->page_tables[b];
    uint32_t most = group_pages(batch, a);
    uint32_t common = 0;
    if (most > group_pages(batch, b))
        most = group_pages(batch, b);
    while (common < most && left[common] == right[common])
        common++;
    return common;
}

/* Any total order in which page tables with the same start are neighbours, the
 * shorter one first. */
static bool group_is_before(const struct batch *batch, uint32_t a, uint32_t b)
{
    uint32_t common = group_common(batch, a, b);
    if (common == group_pages(batch, a) || common == group_pages(batch, b))
        return group_pages(batch, a) < group_pages(batch, b);
    return batch->page_tables[a][common] < batch->page_tables[b][common];
}

static void group_insert(struct batch *batch, uint32_t sequence)
{
    uint32_t begin = 0;
    uint32_t end = sequence; /* sequences sorted so far */
    while (begin < end) {
        uint32_t middle = begin + (end - begin) / 2;
        if (group_is_before(batch, sequence, batch->sorted[middle]))
            end = middle;
        else
            begin = middle + 1;
    }
    memmove(batch->sorted + begin + 1, batch->sorted + begin,
            (sequence - begin) * sizeof(*batch->sorted));
    batch->sorted[begin] = sequence;
}

void batch_group(struct batch *batch)
{
    uint32_t rows = 0;
    bool is_shared = false;
    for (uint32_t i = 0; i < batch->sequences; i++) {
        uint32_t sequence = batch->sorted[i];
        uint32_t first = batch->first_row[sequence];
        uint32_t pages = i > 0 ? group_common(batch, batch->sorted[i - 1], sequence) : 0;
        uint32_t keys = group_blocks(pages * batch->model.kv.layout->page_tokens);
        if (keys < BATCH_SHARED_KEYS_MIN)
            keys = 0;
        is_shared = is_shared || keys > 0;
        for (uint32_t row = first; row < batch->model.rows && batch->sequence[row] == sequence;
             row++) {
            batch->order[rows] = row;
            batch->shared[rows++] = row == first ? keys : 0;
        }
    }
    batch->groups = (struct attention_groups){.order = batch->order, .shared = batch->shared};
    batch->model.groups = is_shared ? &batch->groups : NULL;
}

/* Writes the places of the window units that the rows of a sequence read or write. */
static void add_windows(struct batch *batch, const struct kv_pool *pool,
                        const struct batch_part *part)
{
    const uint32_t begin = kv_pool_window_page(pool, part->first);
    const uint32_t end = kv_pool_pages_for(pool, part->first + part->rows);
    ASSERT(end <= batch->pages_max);
    kv_pool_assert_window(pool, part->pages, begin, end);
    for (uint32_t unit = 0; unit < batch->window_units; unit++) {
        uint32_t *table =
            batch->windows +
            ((size_t)unit * batch->sequences_max + batch->sequences) * batch->pages_max;
        for (uint32_t page = begin; page < end; page++)
            table[page] = kv_pool_unit(pool, part->pages[page], unit + 1);
    }
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
    if (batch->window_units > 0)
        add_windows(batch, pool, part);
    batch->page_tables[batch->sequences] = part->pages;
    batch->first_row[batch->sequences] = model->rows;
    if (batch->open != NULL)
        kv_open_find(batch->open, part->place, part->serial, part->first, part->rows,
                     batch->open_of + model->rows);
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
    group_insert(batch, batch->sequences++);
    return logits_first;
}
