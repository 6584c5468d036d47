/* edge_ack: the prefix against a stupid list, the ends of the window, what is skipped. */
#include "gateway/edge/engines/edge_ack.h"

#include <string.h>

#include "tests/unit/base_kit.h"

static struct edge_ack ack;

static void test_prefix_moves_over_gapless_marks_only(void **state)
{
    (void)state;
    edge_ack_reset(&ack, 10);
    edge_ack_mark(&ack, 12);
    assert_int_equal(ack.prefix, 10);
    assert_true(edge_ack_has_gap(&ack));
    assert_true(edge_ack_is_marked(&ack, 12));
    assert_true(edge_ack_is_marked(&ack, 10));
    assert_false(edge_ack_is_marked(&ack, 11));
    edge_ack_mark(&ack, 11);
    assert_int_equal(ack.prefix, 12);
    assert_false(edge_ack_has_gap(&ack));
    edge_ack_mark(&ack, 5); /* long counted */
    edge_ack_mark(&ack, 12);
    assert_int_equal(ack.prefix, 12);
}

static void test_window_ends(void **state)
{
    (void)state;
    edge_ack_reset(&ack, 7);
    edge_ack_mark(&ack, 7 + LIMIT_FINAL_RECORDS + 1); /* too far: not kept */
    assert_false(edge_ack_has_gap(&ack));
    assert_false(edge_ack_is_marked(&ack, 7 + LIMIT_FINAL_RECORDS + 1));
    edge_ack_mark(&ack, 7 + LIMIT_FINAL_RECORDS);
    assert_true(edge_ack_has_gap(&ack));
    for (uint64_t seq = 8; seq < 7 + LIMIT_FINAL_RECORDS; seq++)
        edge_ack_mark(&ack, seq);
    assert_int_equal(ack.prefix, 7 + LIMIT_FINAL_RECORDS);
    edge_ack_mark(&ack, 7 + LIMIT_FINAL_RECORDS + 1); /* its place is free again */
    assert_int_equal(ack.prefix, 7 + LIMIT_FINAL_RECORDS + 1);
}

static void test_skips(void **state)
{
    (void)state;
    edge_ack_reset(&ack, 0);
    edge_ack_mark(&ack, 6);
    edge_ack_skip(&ack, 1, 3);
    assert_int_equal(ack.prefix, 3);
    edge_ack_skip(&ack, 4, 5);
    assert_int_equal(ack.prefix, 6);
    edge_ack_skip(&ack, 7, 7 + 3 * (uint64_t)LIMIT_FINAL_RECORDS); /* more than the window holds */
    assert_int_equal(ack.prefix, 7 + 3 * (uint64_t)LIMIT_FINAL_RECORDS);
    assert_false(edge_ack_has_gap(&ack));
    edge_ack_skip(&ack, 1, 2);
    assert_int_equal(ack.prefix, 7 + 3 * (uint64_t)LIMIT_FINAL_RECORDS);
}

static void test_ends_of_runs(void **state)
{
    (void)state;
    edge_ack_reset(&ack, 10);
    assert_int_equal(edge_ack_run_end(&ack, 10), 10);
    for (uint64_t seq = 12; seq <= 20; seq++)
        edge_ack_mark(&ack, seq);
    edge_ack_mark(&ack, 22);
    assert_int_equal(edge_ack_run_end(&ack, 10), 10); /* 11 is not there */
    assert_int_equal(edge_ack_run_end(&ack, 11), 20);
    assert_int_equal(edge_ack_run_end(&ack, 15), 20);
    assert_int_equal(edge_ack_run_end(&ack, 21), 22);
    assert_int_equal(edge_ack_run_end(&ack, 22), 22);
    assert_int_equal(edge_ack_run_end(&ack, 99), 99);
}

/* Random marks in a span that wraps around the window, beside an array of flags. */
static void test_random_marks(void **state)
{
    (void)state;
    enum { SPAN = 3000, START = LIMIT_FINAL_RECORDS - SPAN / 2 };
    static bool counted[SPAN + 1];
    uint64_t draw = 88172645463325252u;
    edge_ack_reset(&ack, START);
    uint64_t prefix = 0;
    for (int i = 0; i < 4 * SPAN; i++) {
        draw ^= draw << 13;
        draw ^= draw >> 7;
        draw ^= draw << 17;
        uint64_t at = 1 + draw % (SPAN - 1);
        counted[at] = true;
        while (counted[prefix + 1])
            prefix++;
        edge_ack_mark(&ack, START + at);
        assert_int_equal(ack.prefix, START + prefix);
        at = 1 + (draw >> 32) % (SPAN - 1);
        assert_int_equal(edge_ack_is_marked(&ack, START + at), counted[at] || at <= prefix);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix_moves_over_gapless_marks_only),
        cmocka_unit_test(test_window_ends),
        cmocka_unit_test(test_skips),
        cmocka_unit_test(test_ends_of_runs),
        cmocka_unit_test(test_random_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
