#include "gateway/http/loop_turns.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TASKS = 64 };

struct counted {
    struct loop_turns_task task; /* first */
    pthread_t worked_on;
    int order;
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int done_count;
static int expected;
static struct loop *loop;

static void work(struct loop_turns_task *task)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    ((struct counted *)task)->worked_on = pthread_self();
}

static void done(struct loop_turns_task *task)
{
    assert_false(pthread_equal(((struct counted *)task)->worked_on, pthread_self()));
    ((struct counted *)task)->order = done_count++;
    if (done_count == expected)
        loop_stop(loop);
}

static struct counted task_of(uint8_t owner, size_t bytes)
{
    struct counted counted = {.task = {.turn.bytes = bytes, .work = work, .done = done}};
    counted.task.turn.owner[0] = owner;
    return counted;
}

static void test_tasks_of_an_owner_come_back_in_order(void **state)
{
    (void)state;
    static struct counted tasks[TASKS];
    struct loop_turns *turns;
    done_count = 0;
    expected = TASKS;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    assert_int_equal(loop_turns_create(&turns, loop, TASKS, TASKS), STATUS_OK);
    for (int i = 0; i < TASKS; i++) {
        tasks[i] = task_of((uint8_t)(i % 3), i % 2 == 0 ? 1 : TURNS_SHORT + 1);
        assert_int_equal(loop_turns_submit(turns, &tasks[i].task), STATUS_OK);
    }
    loop_run(loop);
    for (int i = 6; i < TASKS; i++) /* the same owner and lane */
        assert_true(tasks[i - 6].order < tasks[i].order);
    loop_turns_destroy(turns);
    loop_destroy(loop);
}

/* A tenant with a full queue is refused; the others are not. */
static void test_a_full_queue_is_its_owners(void **state)
{
    (void)state;
    static struct counted tasks[10];
    struct loop_turns *turns;
    done_count = expected = 0;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    assert_int_equal(loop_turns_create(&turns, loop, 6, 2), STATUS_OK);
    pthread_mutex_lock(&gate); /* the threads stand in their first tasks */
    for (int i = 0; i < 5; i++) {
        tasks[i] = task_of(1, 1);
        enum status status = loop_turns_submit(turns, &tasks[i].task);
        assert_true(status == STATUS_OK || status == STATUS_QUEUE_FULL);
        expected += status == STATUS_OK;
    }
    /* Two in the queue, and one more if the thread had taken its first by then. */
    assert_in_range(expected, 2, 3);
    tasks[5] = task_of(2, 1);
    assert_int_equal(loop_turns_submit(turns, &tasks[5].task), STATUS_OK);
    expected++;
    pthread_mutex_unlock(&gate);
    loop_run(loop);
    assert_int_equal(done_count, expected);
    loop_turns_destroy(turns);
    loop_turns_destroy(NULL);
    loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks_of_an_owner_come_back_in_order),
        cmocka_unit_test(test_a_full_queue_is_its_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
