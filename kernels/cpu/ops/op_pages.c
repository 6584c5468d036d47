#include "kernels/cpu/ops/ops.h"

#include <stdatomic.h>
#include <string.h>

enum {
    /* From this many bytes in a batch on, the table's streaming copy pays. Smaller batches stay in
     * the caches, where the next step needs them. */
    PAGES_STREAM_BYTES = 1 << 20,
    PAGES_LINE = 64,
    /* What a thread takes at a time. */
    PAGES_PIECE = 64 << 10,
};

struct pages_job {
    const struct pages_copy_args *args;
    void (*copy)(void *to, const void *from, size_t bytes);
    _Atomic uint64_t next;
};

static void pages_copy_small(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/* Copies bytes [at, end) of all pages, counted as if they were adjacent. */
static void pages_copy_piece(const struct pages_job *job, uint64_t at, uint64_t end)
{
    const struct pages_copy_args *args = job->args;
    while (at < end) {
        uint64_t page = at / args->page_bytes;
        uint64_t offset = at % args->page_bytes;
        uint64_t bytes = args->page_bytes - offset;
        bytes = bytes < end - at ? bytes : end - at;
        job->copy((char *)args->to + args->to_pages[page] * args->page_bytes + offset,
                  (const char *)args->from + args->from_pages[page] * args->page_bytes + offset,
                  bytes);
        at += bytes;
    }
}

/* The pieces are not divided in advance. One thread can fill the memory bus, and with equal parts a
 * worker that wakes late would delay half of the work (8 pages of 360 KiB: 0.9 of the rate of long
 * copies, 0.7 with halves). */
static void op_pages_copy_job(void *context, uint32_t thread, uint32_t count)
{
    struct pages_job *job = context;
    const uint64_t end = (uint64_t)job->args->page_bytes * job->args->count;
    (void)thread;
    (void)count;
    for (uint64_t at; (at = atomic_fetch_add(&job->next, PAGES_PIECE)) < end;)
        pages_copy_piece(job, at, end - at < PAGES_PIECE ? end : at + PAGES_PIECE);
}

void op_pages_copy(struct kernels *kernels, const struct pages_copy_args *args)
{
    ASSERT(args->page_bytes % PAGES_LINE == 0);
    const size_t bytes = args->page_bytes * args->count;
    struct pages_job job = {
        .args = args, .copy = bytes < PAGES_STREAM_BYTES ? pages_copy_small : kernels->table->copy};
    ops_run(kernels, &(struct ops_work){.op = KERNELS_OP_pages_copy}, bytes / sizeof(float),
            op_pages_copy_job, &job);
}
