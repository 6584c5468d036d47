#include "gateway/http/loop_worker.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TASKS = 64 };

struct counted {
    struct loop_worker_task task; /* first */
    pthread_t worked_on;
    int order;
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int done_count;
static int expected;
static struct loop *loop;

static void work(struct loop_worker_task *task)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    ((struct counted *)task)->worked_on = pthread_self();
}

static void done(struct loop_worker_task *task)
{
    ((struct counted *)task)->order = done_count++;
    if (done_count == expected)
        loop_stop(loop);
}

static void test_tasks_come_back_in_order(void **state)
{
    (void)state;
    static struct counted tasks[TASKS];
    struct loop_worker *worker;
    done_count = 0;
    expected = TASKS;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    assert_int_equal(loop_worker_create(&worker, loop, TASKS), STATUS_OK);
    for (int i = 0; i < TASKS; i++) {
        tasks[i].task = (struct loop_worker_task){.work = work, .done = done};
        assert_int_equal(loop_worker_submit(worker, &tasks[i].task), STATUS_OK);
    }
    loop_run(loop);
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(tasks[i].order, i);
        assert_false(pthread_equal(tasks[i].worked_on, pthread_self()));
        assert_ptr_equal(tasks[i].task.worker, worker);
    }
    loop_worker_destroy(worker);
    loop_destroy(loop);
}

static void test_a_full_queue_is_busy(void **state)
{
    (void)state;
    static struct counted tasks[8];
    struct loop_worker *worker;
    int taken = 0;
    done_count = 0;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    assert_int_equal(loop_worker_create(&worker, loop, 2), STATUS_OK);
    pthread_mutex_lock(&gate); /* the worker stands in its first task */
    for (int i = 0; i < 8; i++) {
        tasks[i].task = (struct loop_worker_task){.work = work, .done = done};
        enum status status = loop_worker_submit(worker, &tasks[i].task);
        assert_true(status == STATUS_OK || status == STATUS_BUSY);
        taken += status == STATUS_OK;
    }
    /* Two in the queue, and one more if the worker had taken its first by then. */
    assert_true(taken == 2 || taken == 3);
    expected = taken;
    pthread_mutex_unlock(&gate);
    loop_run(loop);
    assert_int_equal(done_count, taken);
    loop_worker_destroy(worker);
    loop_destroy(loop);
}

static void test_destroying_finishes_what_is_queued(void **state)
{
    (void)state;
    static struct counted tasks[4];
    struct loop_worker *worker;
    done_count = 0;
    expected = 100;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    assert_int_equal(loop_worker_create(&worker, loop, 4), STATUS_OK);
    for (int i = 0; i < 4; i++) {
        tasks[i] = (struct counted){.task = {.work = work, .done = done}, .order = -1};
        assert_int_equal(loop_worker_submit(worker, &tasks[i].task), STATUS_OK);
    }
    loop_worker_destroy(worker);
    for (int i = 0; i < 4; i++) {
        assert_true(tasks[i].worked_on != 0);
        assert_int_equal(tasks[i].order, -1);
    }
    loop_worker_destroy(NULL);
    loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_come_back_in_order),
        cmocka_unit_test(test_a_full_queue_is_busy),
        cmocka_unit_test(test_destroying_finishes_what_is_queued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
