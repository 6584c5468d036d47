/* populate: touches large memory for the first time, on a thread of the lowest priority.
 *
 * Owns:     the thread, until populate_stop.
 * Thread:   start and stop by one thread at a time; the memory's owner may use it meanwhile.
 * Cost:     the kernel zeroes the pages: 1.5 s a GiB at nice 19, two cores under a load of 10.
 * Not here: the memory (kernels_buffer_create), which of it is needed.
 *
 * The first write to a page of fresh memory costs a page fault. A step of the engine must not pay
 * it. The contents never change, whatever the owner writes meanwhile.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/base/status.h"

enum { POPULATE_RANGES_MAX = 4 };

struct populate_range {
    void *memory; /* may be NULL if `bytes` is 0 */
    size_t bytes;
};

struct populate {
    pthread_t thread;
    bool is_started;
    struct populate_range ranges[POPULATE_RANGES_MAX];
    size_t range_count;
    _Atomic bool must_stop;
    _Atomic size_t bytes_done; /* sum over the ranges, which are touched in order */
    _Atomic bool is_done;      /* the thread has ended, stopped or not */
};

/* Starts to touch the ranges, one after the other. NO_MEMORY when the thread cannot be started:
 * then the first user of each page pays the fault, and nothing else changes. */
enum status populate_start(struct populate *populate, const struct populate_range *ranges,
                           size_t range_count);
/* Call it before the memory is freed. Ends the thread, at most one chunk later. May be called
 * twice, and on a zeroed struct. */
void populate_stop(struct populate *populate);

/* Touches one range on the caller's thread, in the way that works on every kernel: an atomic
 * exchange writes a byte of each page back to itself. */
void populate_touch(void *memory, size_t bytes);
