/* accept_gate: the bucket of handshakes, and the descriptors kept back. */
#include "gateway/http/accept_gate.h"

#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base_kit.h"

enum { SECOND_US = 1000000 };

static void test_handshakes(void **state)
{
    (void)state;
    struct accept_gate gate;
    uint32_t wait_ms = 0;
    accept_gate_init(&gate, 100, INT_MAX, 0, 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(accept_gate_ask(&gate, 0, &wait_ms), ACCEPT_NOW);
        accept_gate_took(&gate, 7);
    }
    assert_int_equal(accept_gate_ask(&gate, 0, &wait_ms), ACCEPT_HANDSHAKES);
    assert_true(wait_ms >= 1);
    assert_int_equal(accept_gate_ask(&gate, 9999, &wait_ms), ACCEPT_HANDSHAKES);
    assert_int_equal(accept_gate_ask(&gate, 10000, &wait_ms), ACCEPT_NOW);
    accept_gate_took(&gate, 7);
    assert_int_equal(accept_gate_ask(&gate, 10000, &wait_ms), ACCEPT_HANDSHAKES);
    int taken = 0;
    for (int64_t at_us = SECOND_US; at_us < 3 * SECOND_US; at_us += 1000) {
        if (accept_gate_ask(&gate, at_us, &wait_ms) != ACCEPT_NOW)
            continue;
        accept_gate_took(&gate, 7);
        taken++;
    }
    assert_in_range(taken, 298, 300); /* 0.99 s of filling before, then 2 s */
}

static void test_no_limits(void **state)
{
    (void)state;
    struct accept_gate gate;
    uint32_t wait_ms;
    accept_gate_init(&gate, 0, UINT64_MAX, 0, 0); /* RLIM_INFINITY */
    for (int i = 0; i < 100000; i++) {
        assert_int_equal(accept_gate_ask(&gate, 0, &wait_ms), ACCEPT_NOW);
        accept_gate_took(&gate, i);
    }
}

static void test_descriptors(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit low = {.rlim_cur = 200, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    int open_at_start = accept_gate_lowest_free();
    assert_in_range(open_at_start, 3, 9);
    struct accept_gate gate;
    uint32_t wait_ms;
    int taken[200];
    int count = 0;
    accept_gate_init(&gate, 0, 200, (uint32_t)open_at_start, 0);
    while (accept_gate_ask(&gate, 0, &wait_ms) == ACCEPT_NOW) {
        int descriptor = dup(STDERR_FILENO);
        assert_true(descriptor >= 0);
        taken[count++] = descriptor;
        accept_gate_took(&gate, descriptor);
    }
    /* Of 200, 10 are kept back, what was open at first counted in. */
    assert_int_equal(taken[count - 1], 189 + open_at_start);
    assert_true(wait_ms >= 10);
    assert_int_equal(accept_gate_ask(&gate, 0, &wait_ms), ACCEPT_DESCRIPTORS);
    close(taken[--count]); /* one leaves, one may come */
    assert_int_equal(accept_gate_ask(&gate, 0, &wait_ms), ACCEPT_NOW);
    int left[200];
    int rest = 0;
    while ((left[rest] = dup(STDERR_FILENO)) >= 0)
        rest++;
    assert_true(rest >= 1); /* the reserve is really there */
    assert_int_equal(accept_gate_lowest_free(), INT_MAX);
    accept_gate_took(&gate, 195);
    assert_int_equal(accept_gate_ask(&gate, 0, &wait_ms), ACCEPT_DESCRIPTORS);
    while (rest > 0)
        close(left[--rest]);
    while (count > 0)
        close(taken[--count]);
    assert_int_equal(accept_gate_ask(&gate, 0, &wait_ms), ACCEPT_NOW);
    setrlimit(RLIMIT_NOFILE, &before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshakes),
        cmocka_unit_test(test_no_limits),
        cmocka_unit_test(test_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
