#include "kernels/threads.h"

#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "tests/unit/kernels_kit.h"

enum { COUNT_MOST = 8, ROUNDS = 50 };

struct job {
    struct threads *threads;
    uint32_t runs[COUNT_MOST];   /* plain writes: visibility comes from the hand-over alone */
    uint32_t values[COUNT_MOST]; /* exchanged over barriers */
    int nice[COUNT_MOST];
    uint32_t wrong[COUNT_MOST];
};

static void count_job(void *context, uint32_t thread, uint32_t count)
{
    struct job *job = context;
    assert_true(thread < count);
    job->runs[thread]++;
    job->nice[thread] = getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
}

static void test_every_thread_runs_each_job_once(void **state)
{
    (void)state;
    int own = getpriority(PRIO_PROCESS, 0);
    for (uint32_t count = 1; count <= COUNT_MOST; count++) { /* more than processors, too */
        struct job job = {0};
        assert_int_equal(threads_create(&job.threads, count), STATUS_OK);
        assert_int_equal(threads_count(job.threads), count);
        for (uint32_t i = 0; i < 200; i++) {
            threads_run(job.threads, count_job, &job);
            for (uint32_t t = 0; t < count; t++)
                assert_int_equal(job.runs[t], i + 1);
        }
        assert_int_equal(job.nice[0], own);
        for (uint32_t t = 1; t < count; t++)
            assert_int_equal(job.nice[t], own < 10 ? 10 : own);
        threads_destroy(job.threads);
    }
}

/* In each round every thread reads what its neighbour wrote in the round before. */
static void barrier_job(void *context, uint32_t thread, uint32_t count)
{
    struct job *job = context;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        job->values[thread] = round;
        threads_barrier(job->threads);
        job->wrong[thread] += job->values[(thread + 1) % count] != round;
        threads_barrier(job->threads);
    }
}

static void test_barrier(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= COUNT_MOST; count++) {
        struct job job = {0};
        assert_int_equal(threads_create(&job.threads, count), STATUS_OK);
        for (int i = 0; i < 10; i++)
            threads_run(job.threads, barrier_job, &job);
        for (uint32_t t = 0; t < count; t++)
            assert_int_equal(job.wrong[t], 0);
        threads_destroy(job.threads);
    }
}

/* Idle threads sleep; they wake for the next job and for the end. */
static void test_sleepers_wake(void **state)
{
    (void)state;
    struct job job = {0};
    assert_int_equal(threads_create(&job.threads, 3), STATUS_OK);
    for (uint32_t i = 0; i < 3; i++) {
        usleep(20000);
        threads_run(job.threads, count_job, &job);
        assert_int_equal(job.runs[2], i + 1);
    }
    usleep(20000);
    threads_destroy(job.threads);
    for (int i = 0; i < 20; i++) { /* ended before they ever ran */
        assert_int_equal(threads_create(&job.threads, 4), STATUS_OK);
        threads_destroy(job.threads);
    }
    threads_destroy(NULL);
}

static void test_shares_cover_everything_once(void **state)
{
    (void)state;
    for (uint32_t total = 0; total < 70; total++)
        for (uint32_t count = 1; count < 9; count++) {
            uint32_t next = 0;
            for (uint32_t t = 0; t < count; t++) {
                uint32_t begin;
                uint32_t end;
                threads_share(total, t, count, &begin, &end);
                assert_int_equal(begin, next);
                assert_in_range(end - begin, total / count, (total + count - 1) / count);
                next = end;
            }
            assert_int_equal(next, total);
        }
}

static int fail_at(void *context, size_t bytes)
{
    (void)bytes;
    int *left = context;
    return (*left)-- == 0;
}

static void test_limits_and_memory(void **state)
{
    (void)state;
    struct threads *threads;
    assert_int_equal(threads_create(&threads, LIMIT_THREADS + 1), STATUS_OUT_OF_RANGE);
    assert_null(threads);
    assert_int_equal(threads_create(&threads, 0), STATUS_OK);
    assert_int_equal(threads_count(threads), threads_processors());
    threads_destroy(threads);
    for (int n = 0; n < 2; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        assert_int_equal(threads_create(&threads, 2), STATUS_NO_MEMORY);
        mem_hook_set(NULL, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_thread_runs_each_job_once),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_sleepers_wake),
        cmocka_unit_test(test_shares_cover_everything_once),
        cmocka_unit_test(test_limits_and_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
