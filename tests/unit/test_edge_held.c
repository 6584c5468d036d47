/* edge_held: the sum at its limit and one over, and whom that hurts. */
#include "gateway/edge/edge_held.h"

#include "config/base/limits.h"
#include "tests/unit/base_kit.h"

static void test_limit(void **state)
{
    (void)state;
    struct edge_held held = {0};
    size_t large = 0;
    size_t other = 0;
    size_t small = 0;
    assert_true(edge_held_set(&held, &large, LIMIT_ANSWERS_BYTES / 2));
    assert_true(edge_held_set(&held, &other, LIMIT_ANSWERS_BYTES / 2));
    assert_int_equal(held.total, LIMIT_ANSWERS_BYTES);
    assert_false(edge_held_set(&held, &other, LIMIT_ANSWERS_BYTES / 2 + 1));
    assert_true(edge_held_set(&held, &small, LIMIT_ANSWER_SHARE_BYTES));
    assert_false(edge_held_set(&held, &small, LIMIT_ANSWER_SHARE_BYTES + 1));
    assert_true(edge_held_set(&held, &other, 0));
    assert_true(edge_held_set(&held, &small, LIMIT_ANSWER_SHARE_BYTES + 1));
    assert_true(edge_held_set(&held, &small, 0));
    assert_true(edge_held_set(&held, &large, 0));
    assert_int_equal(held.total, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
