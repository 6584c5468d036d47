#include "gateway/admin/admin_worker.h"

#include "tests/unit/base_kit.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CALLS = LIMIT_ADMIN_CALLS + 8 };

static struct loop *loop;
static struct admin_worker *worker;
static struct admin_call calls[CALLS];
static pthread_t loop_thread;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* held: the worker stands at a call */
static atomic_int worked;
static atomic_int idled;
static int done_count;
static int done_wanted;
static bool is_order_right;

static void work(struct admin_call *call)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    call->code = 1 + atomic_fetch_add(&worked, 1);
}

static void done(void *context)
{
    struct admin_call *call = context;
    is_order_right = is_order_right && pthread_equal(pthread_self(), loop_thread) &&
                     call == &calls[done_count] && call->code == done_count + 1;
    if (++done_count == done_wanted)
        loop_stop(loop);
}

static void idle(void *context)
{
    (void)context;
    atomic_fetch_add(&idled, 1);
}

static void start(uint32_t idle_ms)
{
    const struct admin_worker_options options = {
        .loop = loop, .work = work, .done = done, .idle = idle, .idle_ms = idle_ms};
    memset(calls, 0, sizeof calls);
    atomic_store(&worked, 0);
    atomic_store(&idled, 0);
    done_count = 0;
    is_order_right = true;
    assert_int_equal(admin_worker_open(&worker, &options), STATUS_OK);
}

static int setup(void **state)
{
    (void)state;
    loop_thread = pthread_self();
    return loop_create(&loop) != STATUS_OK;
}

static int teardown(void **state)
{
    (void)state;
    loop_destroy(loop);
    return 0;
}

/* Up to the limit they wait, one more is refused; all that were taken are done, in order, on the
 * loop's thread. */
static void test_queue(void **state)
{
    (void)state;
    start(60000);
    pthread_mutex_lock(&gate);
    int pushed = 0;
    while (pushed < CALLS && admin_worker_push(worker, &calls[pushed]) == STATUS_OK)
        pushed++;
    /* The one that the worker has taken already may be one more. */
    assert_in_range(pushed, LIMIT_ADMIN_CALLS, LIMIT_ADMIN_CALLS + 1);
    assert_int_equal(status_note()->status, STATUS_UNAVAILABLE);
    done_wanted = pushed;
    pthread_mutex_unlock(&gate);
    loop_run(loop);
    assert_int_equal(done_count, pushed);
    assert_true(is_order_right);
    assert_int_equal(admin_worker_push(worker, &calls[pushed]), STATUS_OK); /* room again */
    admin_worker_close(worker);
    assert_int_equal(atomic_load(&idled), 1); /* at the end */
}

/* Between calls and without any, as often as asked. */
static void test_idle(void **state)
{
    (void)state;
    start(1);
    for (int i = 0; i < 10000 && atomic_load(&idled) < 3; i++)
        usleep(1000);
    int seen = atomic_load(&idled);
    assert_true(seen >= 3);
    admin_worker_close(worker);
    assert_true(atomic_load(&idled) > seen);
}

/* Closing ends the thread behind the call that runs, and drops those that wait. */
static void test_close(void **state)
{
    (void)state;
    start(60000);
    for (int i = 0; i < 5; i++)
        assert_int_equal(admin_worker_push(worker, &calls[i]), STATUS_OK);
    admin_worker_close(worker);
    int ended = atomic_load(&worked);
    assert_in_range(ended, 0, 5);
    usleep(2000);
    assert_int_equal(atomic_load(&worked), ended);
    assert_int_equal(done_count, 0); /* nobody turned the loop */
    admin_worker_close(NULL);
}

static void test_no_memory(void **state)
{
    (void)state;
    const struct admin_worker_options options = {.loop = loop, .work = work};
    int left = 1;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(admin_worker_open(&worker, &options), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_null(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(test_idle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
