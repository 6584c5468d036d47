#include "engine/text/template_run.h"

#include <stdarg.h>
#include <stdio.h>

#include "config/base/mem.h"
#include "config/base/turns.h"

enum {
    RUN_SPEND_STEPS = 1024, /* steps between two calls of turns_spend */
    RUN_BLOCK_BYTES = 16 * 1024,
};

struct template_block {
    struct template_block *next;
    size_t used;
    size_t capacity;
    _Alignas(16) char bytes[];
};

void template_run_deinit(struct template_run *run)
{
    for (struct template_block *block = run->blocks; block != NULL;) {
        struct template_block *next = block->next;
        mem_free(block);
        block = next;
    }
    mem_free(run->pieces);
    run->blocks = NULL;
    run->pieces = NULL;
}

enum status template_run_fail(const struct template_run *run, int source_line, enum status status,
                              const char *format, ...)
{
    char text[STATUS_MESSAGE_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return status_fail(status, __FILE__, source_line, NULL, "chat template, line %u: %s", run->line,
                       text);
}

enum status template_run_charge(struct template_run *run, size_t bytes)
{
    run->steps += 1 + bytes / TEMPLATE_STEP_BYTES;
    if (run->steps > LIMIT_TEMPLATE_STEPS)
        TEMPLATE_FAIL(run, STATUS_TEMPLATE_LIMIT, "too many steps");
    if (run->steps - run->spent >= RUN_SPEND_STEPS) { /* a step takes about as long as a byte */
        turns_spend((size_t)(run->steps - run->spent));
        run->spent = run->steps;
    }
    return STATUS_OK;
}

enum status template_run_count(struct template_run *run, size_t bytes)
{
    if (bytes > LIMIT_TEMPLATE_VALUE_BYTES - run->bytes)
        TEMPLATE_FAIL(run, STATUS_TEMPLATE_LIMIT, "the values need more than %d bytes",
                      LIMIT_TEMPLATE_VALUE_BYTES);
    run->bytes += bytes;
    return STATUS_OK;
}

enum status template_run_alloc(struct template_run *run, size_t bytes, void **out)
{
    bytes = (bytes + 15) & ~(size_t)15;
    TRY(template_run_count(run, bytes));
    struct template_block *block = run->blocks;
    if (block == NULL || block->capacity - block->used < bytes) {
        size_t capacity = bytes > RUN_BLOCK_BYTES ? bytes : RUN_BLOCK_BYTES;
        block = mem_alloc(sizeof(*block) + capacity);
        if (block == NULL)
            TEMPLATE_FAIL(run, STATUS_NO_MEMORY, "out of memory");
        *block = (struct template_block){.next = run->blocks, .capacity = capacity};
        run->blocks = block;
    }
    *out = block->bytes + block->used;
    block->used += bytes;
    return STATUS_OK;
}

enum status template_run_add_piece(struct template_run *run, struct template_piece piece)
{
    if (run->piece_count == run->piece_capacity) {
        size_t capacity = run->piece_capacity == 0 ? 256 : run->piece_capacity * 2;
        struct template_piece *pieces = mem_realloc(run->pieces, capacity * sizeof(*pieces));
        if (pieces == NULL)
            TEMPLATE_FAIL(run, STATUS_NO_MEMORY, "out of memory");
        run->pieces = pieces;
        run->piece_capacity = capacity;
    }
    TRY(template_run_count(run, sizeof(piece)));
    run->pieces[run->piece_count++] = piece;
    return STATUS_OK;
}
