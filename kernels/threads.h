/* threads: the compute threads, started once, given one job at a time.
 *
 * Owns:     count − 1 worker threads; the caller works as thread 0.
 * Thread:   threads_run from one thread at a time; threads_barrier inside a job.
 * Cost:     a hand-over or a barrier is well under a microsecond while all threads run. A waiting
 *           thread spins briefly and then sleeps, so idle threads cost nothing.
 * Not here: how work is divided (callers use threads_share: a static partition is faster than a
 *           shared counter).
 */
#pragma once

#include <stdint.h>

#include "config/base/status.h"

struct threads;

/* A job runs once on every thread, 0 ≤ thread < count. */
typedef void (*threads_job)(void *context, uint32_t thread, uint32_t count);

/* Starts the workers. `count` is 1 to LIMIT_THREADS; 0: one thread for each processor that this
 * process may use. Workers run at nice +10 where the system allows it, so that the process's other
 * threads go first. OUT_OF_RANGE; NO_MEMORY when a thread cannot be started. */
enum status threads_create(struct threads **out, uint32_t count);
/* Ends and joins the workers; not inside a job. */
void threads_destroy(struct threads *threads);

uint32_t threads_count(const struct threads *threads);

/* Returns when the job has returned on every thread. The caller sees all that the threads wrote. */
void threads_run(struct threads *threads, threads_job job, void *context);

/* Inside a job: returns when all threads have called it. Every thread must call it equally often.
 */
void threads_barrier(struct threads *threads);

/* Computes this thread's part [begin, end) of `total`; parts differ by at most one. */
static inline void threads_share(uint32_t total, uint32_t thread, uint32_t count, uint32_t *begin,
                                 uint32_t *end)
{
    *begin = (uint32_t)((uint64_t)total * thread / count);
    *end = (uint32_t)((uint64_t)total * (thread + 1) / count);
}

/* For loops that wait for another processor's store. */
static inline void threads_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* Returns the number of processors that this process may use, at least 1. */
uint32_t threads_processors(void);
