#include "kernels/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "config/base/mem.h"

/* About 35 to 100 µs: longer than the gaps between operations, shorter than a time slice. */
enum { THREADS_SPINS = 2000, THREADS_NICE = 10, THREADS_LINE = 64 };

/* A word that threads wait on, alone in its cache line. `sleepers` saves the waking side the system
 * call while all threads still spin. */
struct threads_word {
    _Alignas(THREADS_LINE) atomic_uint value;
    atomic_uint sleepers;
};

struct threads_worker {
    struct threads *threads;
    pthread_t handle;
    uint32_t index;
};

struct threads {
    struct threads_word job_number; /* changes when a job, or the end, is announced */
    struct threads_word running;    /* workers that have not finished the job */
    struct threads_word barrier;    /* changes when all have arrived */
    _Alignas(THREADS_LINE) atomic_uint arrived;
    _Alignas(THREADS_LINE) threads_job job;
    void *context;
    bool stop;
    uint32_t count;
    uint32_t started;
    uint32_t spins;
    struct threads_worker *workers;
};

/* Returns when the word is no longer `value`. This side raises `sleepers` and then reads the word;
 * the other side changes the word and then reads `sleepers` (all sequentially consistent). So one
 * of the two notices, and the kernel reads the word again before it puts the thread to sleep. */
static void threads_wait(struct threads_word *word, uint32_t value, uint32_t spins)
{
    for (uint32_t i = 0; i < spins; i++) {
        if (atomic_load_explicit(&word->value, memory_order_acquire) != value)
            return;
        threads_pause();
    }
    while (atomic_load(&word->value) == value) {
        atomic_fetch_add(&word->sleepers, 1);
        syscall(SYS_futex, &word->value, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
        atomic_fetch_sub(&word->sleepers, 1);
    }
}

static void threads_wake(struct threads_word *word)
{
    if (atomic_load(&word->sleepers) > 0)
        syscall(SYS_futex, &word->value, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

static void *threads_worker_main(void *argument)
{
    struct threads_worker *worker = argument;
    struct threads *threads = worker->threads;
    uint32_t seen = 0;
    (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), THREADS_NICE);
    for (;;) {
        threads_wait(&threads->job_number, seen, threads->spins);
        seen++; /* the next job is announced only after all threads have finished this one */
        if (threads->stop)
            return NULL;
        threads->job(threads->context, worker->index, threads->count);
        if (atomic_fetch_sub(&threads->running.value, 1) == 1)
            threads_wake(&threads->running);
    }
}

static void threads_announce(struct threads *threads)
{
    atomic_fetch_add(&threads->job_number.value, 1);
    threads_wake(&threads->job_number);
}

uint32_t threads_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int count = CPU_COUNT(&set);
    return count < 1 ? 1 : count > LIMIT_THREADS ? LIMIT_THREADS : (uint32_t)count;
}

enum status threads_create(struct threads **out, uint32_t count)
{
    uint32_t processors = threads_processors();
    *out = NULL;
    if (count == 0)
        count = processors;
    if (count > LIMIT_THREADS)
        FAIL(STATUS_OUT_OF_RANGE, "%u compute threads; at most %d are supported", count,
             LIMIT_THREADS);
    struct threads *threads = mem_alloc_aligned(THREADS_LINE, sizeof *threads);
    struct threads_worker *workers = mem_zalloc(count, sizeof *workers);
    if (threads == NULL || workers == NULL) {
        mem_free(threads);
        mem_free(workers);
        FAIL(STATUS_NO_MEMORY, "no memory for %u compute threads", count);
    }
    *threads = (struct threads){.count = count, .workers = workers};
    /* With more threads than processors, a spinning thread would delay the one it waits for. */
    threads->spins = count <= processors ? THREADS_SPINS : 0;
    for (uint32_t i = 1; i < count; i++) {
        workers[i] = (struct threads_worker){.threads = threads, .index = i};
        if (pthread_create(&workers[i].handle, NULL, threads_worker_main, &workers[i]) != 0) {
            threads_destroy(threads);
            FAIL(STATUS_NO_MEMORY, "compute thread %u of %u could not be started", i, count);
        }
        threads->started++;
    }
    *out = threads;
    return STATUS_OK;
}

void threads_destroy(struct threads *threads)
{
    if (threads == NULL)
        return;
    threads->stop = true;
    threads_announce(threads);
    for (uint32_t i = 1; i <= threads->started; i++)
        pthread_join(threads->workers[i].handle, NULL);
    mem_free(threads->workers);
    mem_free(threads);
}

uint32_t threads_count(const struct threads *threads)
{
    return threads->count;
}

void threads_run(struct threads *threads, threads_job job, void *context)
{
    if (threads->count == 1) {
        job(context, 0, 1);
        return;
    }
    threads->job = job;
    threads->context = context;
    atomic_store(&threads->running.value, threads->count - 1);
    threads_announce(threads);
    job(context, 0, threads->count);
    for (;;) {
        uint32_t running = atomic_load(&threads->running.value);
        if (running == 0)
            return;
        threads_wait(&threads->running, running, threads->spins);
    }
}

void threads_barrier(struct threads *threads)
{
    uint32_t phase = atomic_load(&threads->barrier.value);
    if (atomic_fetch_add(&threads->arrived, 1) + 1 < threads->count) {
        threads_wait(&threads->barrier, phase, threads->spins);
        return;
    }
    atomic_store(&threads->arrived, 0);
    atomic_fetch_add(&threads->barrier.value, 1);
    threads_wake(&threads->barrier);
}
