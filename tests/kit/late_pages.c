#include "tests/kit/late_pages.h"

#include <stdlib.h>
#include <string.h>

#include "config/base/hash.h"
#include "config/base/status.h"
#include "kernels/cpu/ops/ops.h"
#include "kernels/kernels_ops.h"

enum { BATCHES_MAX = 4096, POISON = 0xff };

struct late_batch {
    struct pages_copy_args args; /* with arrays of its own */
    /* [count] checksums of the pages it reads, taken when it begins; 0: an earlier batch still
     * writes the page */
    uint64_t *sums;
    uint32_t steps_left;
};

static struct {
    struct kernels *kernels;
    const struct kernels_ops *own;
    struct kernels_ops ops;
    struct late_batch batches[BATCHES_MAX]; /* number n is at n % BATCHES_MAX */
    uint64_t first, begun, ended;           /* `first`: the batches before late_pages_begin */
    uint64_t waited;
    uint32_t steps;
} late;

static struct late_batch *batch_at(uint64_t number)
{
    return &late.batches[number % BATCHES_MAX];
}

static const char *page_at(const void *area, const uint32_t *pages, uint32_t i, size_t bytes)
{
    return (const char *)area + pages[i] * bytes;
}

static uint64_t sum_of(const char *page, size_t bytes)
{
    uint64_t sum = 1;
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, page + i, sizeof word);
        sum = hash_mix64(sum ^ word);
    }
    return sum > 0 ? sum : 1;
}

/* Returns whether an unfinished batch writes (or, if not is_written, reads) a page. */
static bool is_touched(const char *page, bool is_written)
{
    for (uint64_t n = late.ended + 1; n <= late.begun; n++) {
        const struct pages_copy_args *args = &batch_at(n)->args;
        for (uint32_t i = 0; i < args->count; i++)
            if (page == (is_written ? page_at(args->to, args->to_pages, i, args->page_bytes)
                                    : page_at(args->from, args->from_pages, i, args->page_bytes)))
                return true;
    }
    return false;
}

static uint32_t *own_array(const uint32_t *from, uint32_t count)
{
    uint32_t *own = malloc((count + 1) * sizeof *own);
    ASSERT(own != NULL);
    memcpy(own, from, count * sizeof *own);
    return own;
}

static void end_first(void)
{
    struct late_batch *batch = batch_at(++late.ended);
    const struct pages_copy_args *args = &batch->args;
    for (uint32_t i = 0; i < args->count; i++)
        ASSERT(batch->sums[i] == 0 ||
               batch->sums[i] == sum_of(page_at(args->from, args->from_pages, i, args->page_bytes),
                                        args->page_bytes));
    (void)late.own->pages_copy(late.kernels, args);
    free((void *)(uintptr_t)args->to_pages);
    free((void *)(uintptr_t)args->from_pages);
    free(batch->sums);
}

static uint64_t late_copy(struct kernels *kernels, const struct pages_copy_args *args)
{
    ASSERT(kernels == late.kernels);
    ASSERT(late.begun - late.ended < BATCHES_MAX - 1);
    struct late_batch batch = {.args = *args, .steps_left = late.steps};
    batch.args.to_pages = own_array(args->to_pages, args->count);
    batch.args.from_pages = own_array(args->from_pages, args->count);
    batch.sums = calloc(args->count + 1, sizeof *batch.sums);
    ASSERT(batch.sums != NULL);
    for (uint32_t i = 0; i < args->count; i++) {
        const char *from = page_at(args->from, args->from_pages, i, args->page_bytes);
        if (!is_touched(from, true))
            batch.sums[i] = sum_of(from, args->page_bytes);
    }
    for (uint32_t i = 0; i < args->count; i++) {
        const char *to = page_at(args->to, args->to_pages, i, args->page_bytes);
        if (!is_touched(to, true) && !is_touched(to, false))
            memset((char *)(uintptr_t)to, POISON, args->page_bytes);
    }
    *batch_at(++late.begun) = batch;
    return late.begun;
}

static uint64_t late_ended(struct kernels *kernels)
{
    (void)kernels;
    return late.ended;
}

static void late_wait(struct kernels *kernels, uint64_t number)
{
    (void)kernels;
    ASSERT(number <= late.begun);
    for (; late.ended < number; late.waited++)
        end_first();
}

static enum status late_all(struct kernels *kernels)
{
    late_wait(kernels, late.begun);
    return STATUS_OK;
}

void late_pages_begin(struct kernels *kernels, uint32_t steps)
{
    ASSERT(late.kernels == NULL);
    late.kernels = kernels;
    late.own = kernels->ops;
    late.ops = *kernels->ops;
    late.ops.pages_copy = late_copy;
    late.ops.pages_ended = late_ended;
    late.ops.pages_wait = late_wait;
    late.ops.pages_end = late_all;
    late.first = late.begun = late.ended = kernels_pages_ended(kernels);
    late.waited = 0;
    late.steps = steps;
    kernels->ops = &late.ops;
}

void late_pages_end(void)
{
    while (late.ended < late.begun)
        end_first();
    late.kernels->ops = late.own;
    late.kernels = NULL;
}

void late_pages_step(void)
{
    if (late.kernels == NULL)
        return;
    for (uint64_t n = late.ended + 1; n <= late.begun; n++)
        batch_at(n)->steps_left -= batch_at(n)->steps_left > 0;
    while (late.ended < late.begun && batch_at(late.ended + 1)->steps_left == 0)
        end_first();
}

uint64_t late_pages_begun(void)
{
    return late.begun - late.first;
}

uint64_t late_pages_waited(void)
{
    return late.waited;
}
