#include "kernels/cpu/ops/ops.h"

#include <string.h>

/* Bytes of a batch from which the table's streaming copy pays: less stays in the caches, where the
 * next step wants it. */
enum { PAGES_STREAM_BYTES = 1 << 20, PAGES_LINE = 64 };

struct pages_job {
    const struct pages_copy_args *args;
    void (*copy)(void *to, const void *from, size_t bytes);
};

static void pages_copy_small(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

/* Each thread has its part of all lines, so that one page is shared out too. */
static void op_pages_copy_job(void *context, uint32_t thread, uint32_t count)
{
    const struct pages_job *job = context;
    const struct pages_copy_args *args = job->args;
    const uint64_t lines = args->page_bytes / PAGES_LINE * args->count;
    uint64_t at = lines * thread / count * PAGES_LINE;
    const uint64_t end = lines * (thread + 1) / count * PAGES_LINE;
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

void op_pages_copy(struct kernels *kernels, const struct pages_copy_args *args)
{
    ASSERT(args->page_bytes % PAGES_LINE == 0);
    const size_t bytes = args->page_bytes * args->count;
    struct pages_job job = {args,
                            bytes < PAGES_STREAM_BYTES ? pages_copy_small : kernels->table->copy};
    ops_run(kernels, bytes / sizeof(float), op_pages_copy_job, &job);
}
