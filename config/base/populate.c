#include "config/base/populate.h"

#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Bytes between two checks of must_stop: two huge pages, under a millisecond. */
enum { CHUNK_BYTES = 4 * 1024 * 1024, NICE = 19 };

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older headers lack the name */
#endif

/* Writes the byte's own value back. An addition of 0 would not do: compilers turn it into a load.
 * When another thread writes in between, the exchange fails, and that thread has touched the page.
 */
__attribute__((no_sanitize("thread"))) static inline void touch_byte(char *byte)
{
    char held = __atomic_load_n(byte, __ATOMIC_RELAXED);
    (void)__atomic_compare_exchange_n(byte, &held, held, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* The owner writes the memory with plain stores at the same time. The exchange loses none of them,
 * but a race detector cannot know that. */
__attribute__((no_sanitize("thread"))) void populate_touch(void *memory, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += page)
        touch_byte((char *)memory + at);
    if (bytes > 0)
        touch_byte((char *)memory + bytes - 1);
}

static void thread_populate(char *memory, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)memory & ~(page - 1);
    uintptr_t end = ((uintptr_t)memory + bytes + page - 1) & ~(page - 1);
    if (madvise((void *)begin, end - begin, MADV_POPULATE_WRITE) != 0)
        populate_touch(memory, bytes);
}

static void *thread_main(void *context)
{
    struct populate *populate = context;
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    for (size_t i = 0; i < populate->range_count; i++) {
        const struct populate_range *range = &populate->ranges[i];
        for (size_t at = 0; at < range->bytes && !atomic_load(&populate->must_stop);) {
            size_t left = range->bytes - at;
            size_t bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;
            thread_populate((char *)range->memory + at, bytes);
            at += bytes;
            atomic_fetch_add(&populate->bytes_done, bytes);
        }
    }
    atomic_store(&populate->is_done, true);
    return NULL;
}

enum status populate_start(struct populate *populate, const struct populate_range *ranges,
                           size_t range_count)
{
    ASSERT(range_count <= POPULATE_RANGES_MAX);
    *populate = (struct populate){.range_count = range_count};
    for (size_t i = 0; i < range_count; i++)
        populate->ranges[i] = ranges[i];
    sigset_t all; /* signals are for the thread that waits for them */
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&populate->thread, NULL, thread_main, populate);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        FAIL(STATUS_NO_MEMORY, "the thread that touches memory could not be started");
    populate->is_started = true;
    return STATUS_OK;
}

void populate_stop(struct populate *populate)
{
    if (!populate->is_started)
        return;
    atomic_store(&populate->must_stop, true);
    pthread_join(populate->thread, NULL);
    populate->is_started = false;
}
