#include "kernels/cpu/ref/ref.h"

#include "tests/unit/kernels_kit.h"

/* 2 × 1 + 0.5 × 3 = 3.5 */
static void test_by_hand(void **state)
{
    (void)state;
    const float a[2] = {1, -1};
    const float b[2] = {3, 4};
    const float *const result[2] = {a, b};
    const float weight[2] = {2, 0.5f};
    float y[2] = {7, 7};
    struct table_experts sum = {.y = y, .count = 2, .weight = weight, .result = result};
    k_experts_sum_ref(&sum, 0, 2);
    assert_float_equal(y[0], 3.5f, 0);
    assert_float_equal(y[1], 0, 0);
    sum.accumulate = true;
    k_experts_sum_ref(&sum, 0, 1); /* the second column stays */
    assert_float_equal(y[0], 7, 0);
    assert_float_equal(y[1], 0, 0);
    sum.count = 0; /* all experts are in other ranks */
    k_experts_sum_ref(&sum, 0, 2);
    assert_float_equal(y[0], 7, 0);
    sum.accumulate = false;
    k_experts_sum_ref(&sum, 0, 2);
    assert_float_equal(y[0], 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
