#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "config/base/pulse.h"

static void test_places_are_apart(void **state)
{
    (void)state;
    struct pulse *pulse;
    assert_int_equal(pulse_create(&pulse), STATUS_OK);
    for (uint32_t place = 0; place < PULSE_PLACES; place++)
        assert_int_equal(pulse_read(pulse, place), 0);
    pulse_beat(pulse, PULSE_ENGINE);
    pulse_beat(pulse, PULSE_ENGINE);
    assert_int_equal(pulse_read(pulse, PULSE_ENGINE), 2);
    assert_int_equal(pulse_read(pulse, PULSE_LOOP), 0);
    pulse_clear(pulse);
    assert_int_equal(pulse_read(pulse, PULSE_ENGINE), 0);
    pulse_beat(NULL, PULSE_LOOP); /* nobody watches */
    pulse_destroy(pulse);
    pulse_destroy(NULL);
}

/* What a child beats its parent sees. */
static void test_it_is_shared(void **state)
{
    (void)state;
    struct pulse *pulse;
    int code = -1;
    assert_int_equal(pulse_create(&pulse), STATUS_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pulse_beat(pulse, PULSE_LOOP);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(pulse_read(pulse, PULSE_LOOP), 1);
    pulse_destroy(pulse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_are_apart),
        cmocka_unit_test(test_it_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
