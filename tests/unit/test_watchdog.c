/* watchdog: what counts as silence: of each thread, of a stopped process, and not of a machine that
 * stood still. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "gateway/serve/watchdog.h"

enum { LOOK_US = WATCHDOG_LOOK_MS * 1000 };

static struct pulse *pulse;
static struct watchdog watchdog;
static int64_t now_us;

static int setup(void **state)
{
    (void)state;
    now_us = 1000000;
    if (pulse_create(&pulse) != STATUS_OK)
        return -1;
    watchdog_begin(&watchdog, pulse, now_us);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pulse_destroy(pulse);
    return 0;
}

static int64_t look(bool is_stopped)
{
    now_us += LOOK_US;
    return watchdog_look(&watchdog, now_us, is_stopped);
}

static void test_one_silent_thread_is_enough(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        pulse_beat(pulse, PULSE_LOOP);
        pulse_beat(pulse, PULSE_ENGINE);
        pulse_beat(pulse, PULSE_ENGINE + 3);
        assert_int_equal(look(false), 0);
    }
    for (int i = 1; i <= 10; i++) {
        pulse_beat(pulse, PULSE_LOOP);
        pulse_beat(pulse, PULSE_ENGINE);
        assert_int_equal(look(false), i * LOOK_US);
    }
    pulse_beat(pulse, PULSE_LOOP);
    pulse_beat(pulse, PULSE_ENGINE);
    pulse_beat(pulse, PULSE_ENGINE + 3);
    assert_int_equal(look(false), 0);
}

/* It may load its model for an hour; stopped it loads nothing. */
static void test_before_the_first_sign(void **state)
{
    (void)state;
    for (int i = 0; i < 7200; i++)
        assert_int_equal(look(false), 0);
    for (int i = 1; i <= 10; i++)
        assert_int_equal(look(true), i * LOOK_US);
    assert_int_equal(look(false), 0);
    pulse_beat(pulse, PULSE_LOOP);
    assert_int_equal(look(true), 0);
}

/* A laptop that slept, a paused virtual machine, a parent that was stopped: nobody could beat. */
static void test_a_pause_of_the_watcher_is_no_silence(void **state)
{
    (void)state;
    pulse_beat(pulse, PULSE_LOOP);
    assert_int_equal(look(false), 0);
    now_us += INT64_C(3600) * 1000000;
    assert_int_equal(look(false), 2 * LOOK_US);
    pulse_beat(pulse, PULSE_LOOP);
    assert_int_equal(look(false), 0);
}

static void wait_for(pid_t child, bool (*holds)(struct watchdog_process process))
{
    for (int i = 0; i < 1000 && !holds(watchdog_process_look(child)); i++)
        usleep(10000);
    assert_true(holds(watchdog_process_look(child)));
}

static bool is_stopped(struct watchdog_process process)
{
    return process.is_stopped && !process.is_traced;
}

static bool is_running(struct watchdog_process process)
{
    return !process.is_stopped && !process.is_traced;
}

static bool is_traced(struct watchdog_process process)
{
    return process.is_traced;
}

static void test_what_the_system_says(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        for (;;)
            pause();
    wait_for(child, is_running);
    assert_int_equal(kill(child, SIGSTOP), 0);
    wait_for(child, is_stopped);
    assert_int_equal(kill(child, SIGCONT), 0);
    wait_for(child, is_running);
    if (ptrace(PTRACE_SEIZE, child, NULL, NULL) == 0) /* a container may forbid it */
        wait_for(child, is_traced);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(is_running(watchdog_process_look(child)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_silent_thread_is_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(test_before_the_first_sign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_pause_of_the_watcher_is_no_silence, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_the_system_says, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
