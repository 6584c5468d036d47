/* loop: order of posts and timers, re-arming, signals, a wall clock that steps back. */
#include "http_kit.h"

#include <signal.h>
#include <sys/wait.h>

#include "gateway/http/loop_h2o.h"

static struct loop *loop;
static int order[1000];
static int count;

struct numbered {
    int number;
    struct loop_timer *timer;
    int64_t armed_us;
};

static void on_number(void *context)
{
    struct numbered *numbered = context;
    order[count++] = numbered->number;
}

static void on_stop(void *context)
{
    (void)context;
    loop_stop(loop);
}

/* --- posts ----------------------------------------------------------------------------------- */

enum { POSTERS = 4, POSTS = 5000 };
static int last_of_poster[POSTERS];
static int posts_run;

static void on_post(void *context)
{
    int value = (int)(intptr_t)context;
    int poster = value / POSTS;
    assert_int_equal(last_of_poster[poster], value % POSTS - 1);
    last_of_poster[poster] = value % POSTS;
    if (++posts_run == POSTERS * POSTS)
        loop_stop(loop);
}

static void *poster_thread(void *context)
{
    int poster = (int)(intptr_t)context;
    for (int i = 0; i < POSTS; i++)
        loop_post(loop, on_post, (void *)(intptr_t)(poster * POSTS + i));
    return NULL;
}

static void test_posts_from_threads(void **state)
{
    (void)state;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    posts_run = 0;
    pthread_t threads[POSTERS];
    for (int i = 0; i < POSTERS; i++) {
        last_of_poster[i] = -1;
        pthread_create(&threads[i], NULL, poster_thread, (void *)(intptr_t)i);
    }
    loop_run(loop);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(posts_run, POSTERS * POSTS);
    loop_post(loop, on_stop, NULL); /* never run: dropped without a leak */
    loop_destroy(loop);
}

static int nested;

static void on_nested(void *context)
{
    (void)context;
    if (++nested < 10)
        loop_post(loop, on_nested, NULL);
    else
        loop_stop(loop);
}

static void test_posts_from_inside(void **state)
{
    (void)state;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    nested = 0;
    loop_post(loop, on_nested, NULL);
    loop_run(loop);
    assert_int_equal(nested, 10);
    loop_destroy(loop);
}

/* --- timers ---------------------------------------------------------------------------------- */

static void test_timers_in_order(void **state)
{
    (void)state;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    static const uint32_t delays[] = {30, 5, 20, 0, 5, 10, 25};
    enum { COUNT = sizeof(delays) / sizeof(delays[0]) };
    struct numbered numbered[COUNT];
    count = 0;
    for (int i = 0; i < COUNT; i++) {
        numbered[i].number = i;
        numbered[i].timer = loop_timer_create(loop, on_number, &numbered[i]);
        loop_timer_arm(numbered[i].timer, delays[i]);
    }
    struct loop_timer *stop = loop_timer_create(loop, on_stop, NULL);
    loop_timer_arm(stop, 40);
    int64_t begin_us = loop_now_us(loop);
    loop_run(loop);
    assert_true(loop_now_us(loop) - begin_us >= 40000 - 1000);
    static const int wanted[COUNT] = {3, 1, 4, 5, 2, 6, 0};
    assert_int_equal(count, COUNT);
    assert_memory_equal(order, wanted, sizeof(wanted));
    for (int i = 0; i < COUNT; i++)
        loop_timer_destroy(numbered[i].timer);
    loop_timer_destroy(stop);
    loop_destroy(loop);
}

static void test_timers_move(void **state)
{
    (void)state;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    struct numbered later = {.number = 1}, sooner = {.number = 2}, never = {.number = 3},
                    gone = {.number = 4};
    later.timer = loop_timer_create(loop, on_number, &later);
    sooner.timer = loop_timer_create(loop, on_number, &sooner);
    never.timer = loop_timer_create(loop, on_number, &never);
    gone.timer = loop_timer_create(loop, on_number, &gone);
    struct loop_timer *stop = loop_timer_create(loop, on_stop, NULL);
    loop_timer_arm(later.timer, 1);
    loop_timer_arm(sooner.timer, 60000);
    loop_timer_arm(never.timer, 1);
    loop_timer_arm(gone.timer, 1);
    loop_timer_arm(later.timer, 20);
    loop_timer_arm(sooner.timer, 10);
    loop_timer_disarm(never.timer);
    loop_timer_disarm(never.timer);
    loop_timer_destroy(gone.timer);
    loop_timer_arm(stop, 30);
    count = 0;
    loop_run(loop);
    assert_int_equal(count, 2); /* one shot each */
    assert_int_equal(order[0], 2);
    assert_int_equal(order[1], 1);
    loop_timer_destroy(later.timer);
    loop_timer_destroy(sooner.timer);
    loop_timer_destroy(never.timer);
    loop_timer_destroy(stop);
    loop_destroy(loop);
}

/* Armed again from its own callback, and never early. */
static void on_again(void *context)
{
    struct numbered *numbered = context;
    assert_true(loop_now_us(loop) >= numbered->armed_us + 2000);
    if (++numbered->number == 20) {
        loop_stop(loop);
        return;
    }
    numbered->armed_us = loop_now_us(loop);
    loop_timer_arm(numbered->timer, 2);
}

static void test_timer_rearms_itself(void **state)
{
    (void)state;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    struct numbered numbered = {0};
    numbered.timer = loop_timer_create(loop, on_again, &numbered);
    numbered.armed_us = loop_now_us(loop);
    loop_timer_arm(numbered.timer, 2);
    loop_run(loop);
    assert_int_equal(numbered.number, 20);
    loop_timer_destroy(numbered.timer);
    loop_destroy(loop);
}

/* --- signals --------------------------------------------------------------------------------- */

static int signals[65];

static void on_signal(void *context, int number)
{
    (void)context;
    signals[number]++;
    if (number == SIGTERM)
        loop_stop(loop);
    else
        kill(getpid(), SIGTERM);
}

static void test_signals(void **state)
{
    (void)state;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    assert_int_equal(loop_watch_signals(loop, on_signal, NULL), STATUS_OK);
    kill(getpid(), SIGHUP);
    loop_run(loop);
    assert_int_equal(signals[SIGHUP], 1);
    assert_int_equal(signals[SIGTERM], 1);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    loop_run(loop); /* until it is told of a child's end */
    assert_int_equal(signals[SIGCHLD], 1);
    assert_int_equal(signals[SIGTERM], 2);
    assert_int_equal(waitpid(child, NULL, 0), child);
    loop_destroy(loop);
}

/* --- libh2o's clock -------------------------------------------------------------------------- */

static int h2o_fired;

static void on_h2o_timeout(h2o_timeout_entry_t *entry)
{
    (void)entry;
    h2o_fired++;
}

static void test_clock_steps_back(void **state)
{
    (void)state;
    assert_int_equal(loop_create(&loop), STATUS_OK);
    h2o_timeout_t timeout;
    h2o_timeout_entry_t entry = {.cb = on_h2o_timeout};
    h2o_timeout_init(loop_h2o(loop), &timeout, 0);
    h2o_timeout_link(loop_h2o(loop), &timeout, &entry);
    entry.registered_at += 3600 * 1000; /* as if the clock had been an hour ahead */
    loop_h2o_turn(loop, 0);
    assert_int_equal(h2o_fired, 0);
    loop_h2o_forgive_clock(loop);
    loop_h2o_turn(loop, 0);
    assert_int_equal(h2o_fired, 1);
    h2o_timeout_dispose(loop_h2o(loop), &timeout);
    loop_destroy(loop);
}

/* Descriptors come back: libh2o itself would leave one behind for each loop. */
static void test_descriptors(void **state)
{
    (void)state;
    int before = dup(0);
    close(before);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(loop_create(&loop), STATUS_OK);
        loop_destroy(loop);
    }
    int after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

/* As a listener leaves them that cannot close a connection: no end of the process. */
static void test_timeouts_that_are_left(void **state)
{
    (void)state;
    static h2o_timeout_t timeout;
    struct loop *own;
    assert_int_equal(loop_create(&own), STATUS_OK);
    h2o_timeout_init(loop_h2o(own), &timeout, 1000);
    loop_destroy(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_posts_from_threads),
        cmocka_unit_test(test_posts_from_inside),
        cmocka_unit_test(test_timers_in_order),
        cmocka_unit_test(test_timers_move),
        cmocka_unit_test(test_timer_rearms_itself),
        cmocka_unit_test(test_clock_steps_back),
        cmocka_unit_test(test_signals),
        cmocka_unit_test(test_timeouts_that_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
