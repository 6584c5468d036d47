/* populate: the first touch of large memory, on a thread that gives way to all others.
 *
 * Owns:     the thread, until populate_stop.
 * Thread:   start and stop by one thread at a time; whoever owns the memory uses it all the while.
 * Cost:     the kernel zeroes the pages: 1.5 s a GiB at nice 19, two cores under a load of 10.
 * Not here: the memory (kernels_buffer_create), which of it is needed.
 *
 * Memory that is fresh from the kernel costs its first writer a fault a page; a step of the engine
 * must not pay it. Contents are never changed, whatever the owner writes meanwhile.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/base/status.h"

enum { POPULATE_RANGES_MAX = 4 };

struct populate_range {
    void *memory; /* may be NULL with 0 bytes */
    size_t bytes;
};

struct populate {
    pthread_t thread;
    bool is_started;
    struct populate_range ranges[POPULATE_RANGES_MAX];
    size_t range_count;
    _Atomic bool must_stop;
    _Atomic size_t bytes_done; /* of all ranges, in order */
    _Atomic bool is_done;      /* the thread has come to its end, stopped or not */
};

/* Starts on the ranges, one after the other. NO_MEMORY when there is no thread: then the first
 * touches cost whoever makes them, and nothing else changes. */
enum status populate_start(struct populate *populate, const struct populate_range *ranges,
                           size_t range_count);
/* Before the memory is freed: ends the thread, at once but for a chunk under way. Twice is fine,
 * and on a zeroed struct too. */
void populate_stop(struct populate *populate);

/* One range at once, on the caller's thread, by the way that works on every kernel: each page is
 * written with what it holds, in one instruction. */
void populate_touch(void *memory, size_t bytes);
