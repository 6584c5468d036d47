#include "engine/ranks/rank_follow.h"

#include <stdio.h>
#include <string.h>

#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/populate.h"
#include "engine/models/model.h"
#include "engine/models/model_source.h"
#include "engine/models/model_units.h"
#include "engine/ranks/rank_wire.h"
#include "kernels/kernels_step.h"

struct follow {
    struct ranks *ranks;
    struct rank_setup setup;
    struct rank_memory memory;
    struct kernels *kernels;
    struct model *model;
    struct kv_layout layout;
    void *areas[RANK_AREAS];
    struct populate populate;
    bool is_over; /* rank 0 has ended */
    /* Contents of a message. */
    uint32_t *rows[6];       /* [rows_max] tokens, sequence, position, open_of, order, shared */
    uint32_t *logit_row;     /* [logit_rows_max] */
    uint32_t *counts;        /* [sequences] */
    uint32_t *pages;         /* [tables] of a step, or the two lists of a copy */
    uint32_t *firsts;        /* [sequences] */
    const uint32_t **tables; /* [1 + window_units][sequences] */
};

enum { ROW_TOKENS, ROW_SEQUENCE, ROW_POSITION, ROW_OPEN_OF, ROW_ORDER, ROW_SHARED, ROW_ARRAYS };

static enum status hear(struct follow *follow, void *bytes, size_t length)
{
    enum status status = ranks_read(follow->ranks, 0, bytes, length);
    follow->is_over = status != STATUS_OK;
    return status;
}

/* --- start --- */

static enum status open_model(struct follow *follow, int descriptor)
{
    const struct rank_setup *setup = &follow->setup;
    struct model_config config;
    struct model_share share;
    struct model_source source = {0};
    uint32_t own = ranks_own(follow->ranks);
    enum status status = STATUS_OK;
    TRY(model_source_open_descriptor(&source, descriptor));
    TRY_OUT(model_config_read(&config, &source));
    TRY_OUT(model_share_of(&share, &config, own, ranks_count(follow->ranks)));
    if (setup->has_whole_experts)
        TRY_OUT(model_share_whole_experts(&share, &config));
    const struct kernels_options options = {
        .isa = setup->isa[0] != '\0' ? setup->isa : NULL,
        .threads = setup->threads,
        .rows_max = setup->rows_max,
        .cols_max = model_cols_max(&config),
        .device = setup->device,
        .is_free = setup->is_free,
        .tables_max = setup->tables_max,
        .ranks = follow->ranks,
    };
    TRY_OUT(kernels_create(&follow->kernels, &options));
    const struct model_options model_options = {.rows_max = setup->rows_max,
                                                .logit_rows_max = setup->logit_rows_max,
                                                .context = setup->context,
                                                .weights = (enum model_weights)setup->weights};
    TRY_OUT(model_open_share(&follow->model, follow->kernels, &source, &model_options, &share));
    TRY_OUT(model_units_layout(follow->kernels, &config, share.kv_heads,
                               (enum kv_type)setup->kv_type, setup->page_tokens, &follow->layout));
out:
    model_source_close(&source);
    return status;
}

static enum status open_memory(struct follow *follow)
{
    TRY(kernels_ranks_open(follow->kernels));
    const struct rank_memory *memory = &follow->memory;
    const uint32_t rows_max = follow->setup.rows_max;
    uint64_t pool_pages = memory->bytes[RANK_POOL] / follow->layout.page_bytes;
    const uint64_t groups = 1 + (uint64_t)follow->layout.window_units;
    const uint64_t tables = memory->tables * groups;
    uint64_t pages = tables > 2 * pool_pages ? tables : 2 * pool_pages;
    bool is_missing = false;
    for (uint32_t i = 0; i < RANK_AREAS; i++) {
        uint64_t bytes = memory->bytes[i];
        if (bytes > 0)
            follow->areas[i] = i == RANK_HOST ? kernels_host_create(follow->kernels, bytes)
                                              : kernels_buffer_create(follow->kernels, bytes);
        if (bytes > 0 && follow->areas[i] == NULL && i == RANK_HOST)
            return kernels_no_host_memory(follow->kernels, bytes, "a rank's host pages");
        if (bytes > 0 && follow->areas[i] == NULL)
            return kernels_no_memory(follow->kernels, bytes, "a rank's pages");
    }
    for (uint32_t i = 0; i < ROW_ARRAYS; i++) {
        follow->rows[i] = mem_zalloc(rows_max, sizeof **follow->rows);
        is_missing = is_missing || follow->rows[i] == NULL;
    }
    follow->logit_row = mem_zalloc(follow->setup.logit_rows_max, sizeof *follow->logit_row);
    follow->counts = mem_zalloc(memory->sequences, sizeof *follow->counts);
    follow->firsts = mem_zalloc(memory->sequences, sizeof *follow->firsts);
    follow->tables = mem_zalloc(groups * memory->sequences, sizeof *follow->tables);
    follow->pages = mem_zalloc(pages, sizeof *follow->pages);
    if (is_missing || follow->logit_row == NULL || follow->counts == NULL ||
        follow->firsts == NULL || follow->tables == NULL || follow->pages == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for %llu bytes of pages",
             (unsigned long long)(memory->bytes[RANK_POOL] + memory->bytes[RANK_HOST]));
    const struct populate_range ranges[] = {
        {follow->areas[RANK_POOL], memory->bytes[RANK_POOL]},
        {follow->areas[RANK_HOST], memory->bytes[RANK_HOST]},
    };
    if (!kernels_is_device(follow->kernels))
        (void)populate_start(&follow->populate, ranges, 2);
    return STATUS_OK;
}

static enum status open_answer(struct follow *follow, enum status status)
{
    struct rank_answer answer = {.status = status};
    if (status != STATUS_OK)
        snprintf(answer.message, sizeof answer.message, "%s", status_note()->message);
    enum status written = ranks_write(follow->ranks, 0, &answer, sizeof answer);
    return status != STATUS_OK ? status : written;
}

static enum status open_all(struct follow *follow, int descriptor)
{
    TRY(hear(follow, &follow->setup, sizeof follow->setup));
    TRY(open_answer(follow, open_model(follow, descriptor)));
    TRY(hear(follow, &follow->memory, sizeof follow->memory));
    return open_answer(follow, open_memory(follow));
}

static void close_all(struct follow *follow)
{
    populate_stop(&follow->populate);
    if (follow->kernels != NULL) /* before memory is freed that sums with an ended rank still use */
        (void)kernels_step_end(follow->kernels);
    for (uint32_t i = 0; i < RANK_AREAS && follow->kernels != NULL; i++) {
        if (follow->areas[i] == NULL)
            continue;
        if (i == RANK_HOST)
            kernels_host_destroy(follow->kernels, follow->areas[i]);
        else
            kernels_buffer_destroy(follow->kernels, follow->areas[i]);
    }
    for (uint32_t i = 0; i < ROW_ARRAYS; i++)
        mem_free(follow->rows[i]);
    mem_free(follow->logit_row);
    mem_free(follow->counts);
    mem_free(follow->firsts);
    mem_free(follow->tables);
    mem_free(follow->pages);
    model_close(follow->model);
    if (follow->kernels != NULL)
        kernels_destroy(follow->kernels);
}

/* --- messages of rank 0 --- */

static enum status take_words(struct follow *follow, uint32_t *words, uint64_t count)
{
    return hear(follow, words, count * sizeof *words);
}

/* Reads the places of window units behind the tables of `pages` pages. Each table begins with the
 * first page that is read; no entry before it is. */
static enum status take_windows(struct follow *follow, uint32_t sequences, uint64_t pages)
{
    const uint64_t room = follow->memory.tables * (1 + (uint64_t)follow->layout.window_units);
    TRY(take_words(follow, follow->firsts, sequences));
    for (uint32_t unit = 1; unit <= follow->layout.window_units; unit++)
        for (uint32_t i = 0; i < sequences; i++) {
            const uint32_t first = follow->firsts[i];
            ASSERT(first <= follow->counts[i]);
            ASSERT(pages + follow->counts[i] <= room);
            follow->tables[(size_t)unit * sequences + i] = follow->pages + pages;
            TRY(take_words(follow, follow->pages + pages + first, follow->counts[i] - first));
            pages += follow->counts[i];
        }
    return STATUS_OK;
}

static enum status take_tables(struct follow *follow, uint32_t sequences)
{
    uint64_t pages = 0;
    ASSERT(sequences <= follow->memory.sequences);
    TRY(take_words(follow, follow->counts, sequences));
    for (uint32_t i = 0; i < sequences; i++) {
        follow->tables[i] = follow->pages + pages;
        pages += follow->counts[i];
    }
    ASSERT(pages <= follow->memory.tables);
    TRY(take_words(follow, follow->pages, pages));
    return follow->layout.window_units > 0 ? take_windows(follow, sequences, pages) : STATUS_OK;
}

static enum status run_step(struct follow *follow, const struct rank_message *message)
{
    uint32_t *const *rows = follow->rows;
    const struct attention_groups groups = {.order = rows[ROW_ORDER], .shared = rows[ROW_SHARED]};
    ASSERT(message->rows <= follow->setup.rows_max);
    ASSERT(message->logit_rows <= follow->setup.logit_rows_max);
    TRY(take_words(follow, rows[ROW_TOKENS], message->rows));
    TRY(take_words(follow, rows[ROW_SEQUENCE], message->rows));
    TRY(take_words(follow, rows[ROW_POSITION], message->rows));
    TRY(take_words(follow, follow->logit_row, message->logit_rows));
    if (message->has_open)
        TRY(take_words(follow, rows[ROW_OPEN_OF], message->rows));
    if (message->has_groups) {
        TRY(take_words(follow, rows[ROW_ORDER], message->rows));
        TRY(take_words(follow, rows[ROW_SHARED], message->rows));
    }
    TRY(take_tables(follow, message->sequences));
    const struct model_batch batch = {
        .rows = message->rows,
        .tokens = rows[ROW_TOKENS],
        .kv = {.layout = &follow->layout,
               .pages = follow->areas[RANK_POOL],
               .sequence = rows[ROW_SEQUENCE],
               .position = rows[ROW_POSITION],
               .page_tables = follow->tables,
               .open = message->has_open ? follow->areas[RANK_OPEN] : NULL,
               .open_of = rows[ROW_OPEN_OF],
               .sequences = message->sequences},
        .groups = message->has_groups ? &groups : NULL,
        .logit_rows = message->logit_rows,
        .logit_row = follow->logit_row,
        .layers = message->layers,
    };
    if (model_forward(follow->model, &batch) == NULL)
        return status_note()->status;
    return kernels_step_end(follow->kernels); /* a failure here ends this rank: others wait */
}

static char *run_place(const struct follow *follow, struct rank_place place)
{
    ASSERT(place.area < RANK_AREAS);
    ASSERT(place.offset < follow->memory.bytes[place.area]);
    return (char *)follow->areas[place.area] + place.offset;
}

static enum status run_pages_copy(struct follow *follow, const struct rank_message *message)
{
    const uint32_t count = message->count;
    ASSERT(count <= follow->memory.bytes[RANK_POOL] / follow->layout.page_bytes);
    TRY(take_words(follow, follow->pages, 2 * (uint64_t)count));
    const struct pages_copy_args args = {.to = run_place(follow, message->to),
                                         .from = run_place(follow, message->from),
                                         .from_pages = follow->pages,
                                         .to_pages = follow->pages + count,
                                         .count = count,
                                         .page_bytes = follow->layout.page_bytes};
    kernels_pages_wait(follow->kernels, kernels_pages_copy(follow->kernels, &args));
    return STATUS_OK;
}

static enum status run_message(struct follow *follow, const struct rank_message *message)
{
    switch (message->kind) {
    case RANK_STEP:
        return run_step(follow, message);
    case RANK_KV_COPY:
        ASSERT(message->count <= follow->layout.page_tokens);
        kernels_kv_copy(follow->kernels, &follow->layout, run_place(follow, message->to),
                        run_place(follow, message->from), message->count);
        return STATUS_OK;
    default:
        return run_pages_copy(follow, message);
    }
}

enum status rank_follow_run(struct ranks *ranks, int descriptor)
{
    struct follow follow = {.ranks = ranks};
    enum status status = open_all(&follow, descriptor);
    if (status == STATUS_OK)
        LOG(LOG_INFO, "rank_ready", LOG_NUMBER("rank", ranks_own(ranks)),
            LOG_NUMBER("threads", kernels_threads(follow.kernels)));
    while (status == STATUS_OK) {
        struct rank_message message;
        status = hear(&follow, &message, sizeof message);
        if (status == STATUS_OK)
            status = run_message(&follow, &message);
    }
    struct error_note note = *status_note();
    close_all(&follow);
    status_note_set(&note);
    return follow.is_over ? STATUS_OK : status;
}
