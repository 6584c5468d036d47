#include "engine/ranks/rank_lead.h"

#include <string.h>

#include "config/base/mem.h"
#include "kernels/ranks.h"

enum { LEAD_BYTES = 64 << 10 };

struct rank_lead {
    struct ranks *ranks;
    struct kernels *kernels;
    struct model *model;
    struct rank_areas areas;
    struct kernels_copies_told told;
    uint32_t sequences_max;
    uint32_t *counts; /* [sequences_max] pages of each table */
    uint32_t *firsts; /* [sequences_max] first page of each window table */
    size_t length;    /* bytes that are not written yet */
    char bytes[LEAD_BYTES];
};

/* Ignores write errors: a rank that has ended makes the batch itself fail. */
static void put_flush(struct rank_lead *lead)
{
    for (uint32_t rank = 1; rank < ranks_count(lead->ranks); rank++)
        (void)ranks_write(lead->ranks, rank, lead->bytes, lead->length);
    lead->length = 0;
}

static void put(struct rank_lead *lead, const void *bytes, size_t length)
{
    const char *from = bytes;
    while (length > 0) {
        size_t part = sizeof lead->bytes - lead->length;
        part = part < length ? part : length;
        memcpy(lead->bytes + lead->length, from, part);
        lead->length += part;
        from += part;
        length -= part;
        if (lead->length == sizeof lead->bytes)
            put_flush(lead);
    }
}

static void put_words(struct rank_lead *lead, const uint32_t *words, size_t count)
{
    put(lead, words, count * sizeof *words);
}

/* --- batches --- */

/* Counts the pages that rows of each sequence reach, and finds the first that they read in layers
 * with a window; returns the number of sequences. */
static uint32_t step_tables(struct rank_lead *lead, const struct model_batch *batch)
{
    const struct kv_rows *kv = &batch->kv;
    uint32_t sequences = 0;
    for (uint32_t row = 0; row < batch->rows; row++) {
        uint32_t sequence = kv->sequence[row];
        uint32_t pages = kv->position[row] / kv->layout->page_tokens + 1;
        uint32_t first =
            kernels_window_first(kv->layout->window, kv->position[row]) / kv->layout->page_tokens;
        ASSERT(sequence < lead->sequences_max);
        for (; sequences <= sequence; sequences++) {
            lead->counts[sequences] = 0;
            lead->firsts[sequences] = UINT32_MAX;
        }
        if (lead->counts[sequence] < pages)
            lead->counts[sequence] = pages;
        if (lead->firsts[sequence] > first)
            lead->firsts[sequence] = first;
    }
    return sequences;
}

static void put_windows(struct rank_lead *lead, const struct kv_rows *kv, uint32_t sequences)
{
    for (uint32_t i = 0; i < sequences; i++) /* a sequence without rows */
        if (lead->firsts[i] > lead->counts[i])
            lead->firsts[i] = lead->counts[i];
    put_words(lead, lead->firsts, sequences);
    for (uint32_t unit = 1; unit <= kv->layout->window_units; unit++)
        for (uint32_t i = 0; i < sequences; i++)
            put_words(lead, kv->page_tables[(size_t)unit * kv->sequences + i] + lead->firsts[i],
                      lead->counts[i] - lead->firsts[i]);
}

static void told_step(void *context, const struct model_batch *batch)
{
    struct rank_lead *lead = context;
    const struct kv_rows *kv = &batch->kv;
    const struct rank_message message = {.kind = RANK_STEP,
                                         .rows = batch->rows,
                                         .logit_rows = batch->logit_rows,
                                         .layers = batch->layers,
                                         .sequences = step_tables(lead, batch),
                                         .has_open = kv->open != NULL,
                                         .has_groups = batch->groups != NULL};
    put(lead, &message, sizeof message);
    put_words(lead, batch->tokens, batch->rows);
    put_words(lead, kv->sequence, batch->rows);
    put_words(lead, kv->position, batch->rows);
    put_words(lead, batch->logit_row, batch->logit_rows);
    if (message.has_open)
        put_words(lead, kv->open_of, batch->rows);
    if (message.has_groups) {
        put_words(lead, batch->groups->order, batch->rows);
        put_words(lead, batch->groups->shared, batch->rows);
    }
    put_words(lead, lead->counts, message.sequences);
    for (uint32_t i = 0; i < message.sequences; i++)
        put_words(lead, kv->page_tables[i], lead->counts[i]);
    if (kv->layout->window_units > 0)
        put_windows(lead, kv, message.sequences);
    put_flush(lead);
}

/* --- copies --- */

/* Finds the area of an address; false for pages of a draft model, which only rank 0 has. */
static bool copy_place(const struct rank_lead *lead, const void *memory, struct rank_place *out)
{
    for (uint32_t i = 0; i < RANK_AREAS; i++) {
        uintptr_t offset = (uintptr_t)memory - (uintptr_t)lead->areas.memory[i];
        if (offset >= lead->areas.bytes[i])
            continue;
        *out = (struct rank_place){i, offset};
        return true;
    }
    return false;
}

static void told_kv_copy(void *context, void *to_page, const void *from_page, uint32_t tokens)
{
    struct rank_lead *lead = context;
    struct rank_message message = {.kind = RANK_KV_COPY, .count = tokens};
    if (!copy_place(lead, to_page, &message.to) || !copy_place(lead, from_page, &message.from))
        return;
    put(lead, &message, sizeof message);
    put_flush(lead);
}

static void told_pages_copy(void *context, const struct pages_copy_args *args)
{
    struct rank_lead *lead = context;
    struct rank_message message = {.kind = RANK_PAGES_COPY, .count = args->count};
    if (!copy_place(lead, args->to, &message.to) || !copy_place(lead, args->from, &message.from))
        return;
    put(lead, &message, sizeof message);
    put_words(lead, args->from_pages, args->count);
    put_words(lead, args->to_pages, args->count);
    put_flush(lead);
}

/* --- start and end --- */

enum status rank_lead_open(struct rank_lead **out, struct ranks *ranks,
                           const struct rank_setup *setup)
{
    struct rank_lead *lead = mem_zalloc(1, sizeof *lead);
    if (lead == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the messages to %u ranks", ranks_count(ranks));
    lead->ranks = ranks;
    for (uint32_t rank = 1; rank < ranks_count(ranks); rank++) {
        enum status status = ranks_write(ranks, rank, setup, sizeof *setup);
        if (status != STATUS_OK) {
            mem_free(lead);
            return status;
        }
    }
    *out = lead;
    return STATUS_OK;
}

static enum status begin_hear(struct rank_lead *lead)
{
    for (uint32_t rank = 1; rank < ranks_count(lead->ranks); rank++) {
        struct rank_answer answer;
        TRY(ranks_read(lead->ranks, rank, &answer, sizeof answer));
        answer.message[sizeof answer.message - 1] = '\0'; /* the sender has fewer rights */
        if (answer.status != STATUS_OK)
            FAIL(answer.status, "rank %u: %s", rank, answer.message);
    }
    return STATUS_OK;
}

enum status rank_lead_begin(struct rank_lead *lead, struct kernels *kernels, struct model *model,
                            const struct rank_areas *areas, uint32_t sequences, uint64_t tables)
{
    struct rank_memory memory = {.sequences = sequences, .tables = tables};
    memcpy(memory.bytes, areas->bytes, sizeof memory.bytes);
    TRY(begin_hear(lead));
    for (uint32_t rank = 1; rank < ranks_count(lead->ranks); rank++)
        TRY(ranks_write(lead->ranks, rank, &memory, sizeof memory));
    TRY(kernels_ranks_open(kernels));
    lead->counts = mem_zalloc(sequences, sizeof *lead->counts);
    lead->firsts = mem_zalloc(sequences, sizeof *lead->firsts);
    if (lead->counts == NULL || lead->firsts == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tables of %u sequences", sequences);
    TRY(begin_hear(lead));
    lead->sequences_max = sequences;
    lead->areas = *areas;
    lead->kernels = kernels;
    lead->model = model;
    lead->told = (struct kernels_copies_told){
        .context = lead, .kv_copy = told_kv_copy, .pages_copy = told_pages_copy};
    kernels_copies_tell(kernels, &lead->told);
    model_tell(model, told_step, lead);
    return STATUS_OK;
}

void rank_lead_close(struct rank_lead *lead)
{
    if (lead == NULL)
        return;
    if (lead->kernels != NULL) {
        kernels_copies_tell(lead->kernels, NULL);
        model_tell(lead->model, NULL, NULL);
    }
    mem_free(lead->counts);
    mem_free(lead->firsts);
    mem_free(lead);
}
