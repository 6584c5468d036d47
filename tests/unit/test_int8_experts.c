/* The order of the weighted sum of experts, and its accuracy. */
#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/ref_int8/ref_int8.h"
#include "tests/unit/kernels_kit.h"

enum { COLS = 48, COUNT = 5 };

static void test_accuracy(void **state)
{
    (void)state;
    struct rng rng = {.seed = 4};
    const float *result[COUNT];
    float *weight = kit_floats(&rng, COUNT, 1);
    float *got = kit_floats(&rng, COLS, 1);
    float want[COLS];
    memcpy(want, got, sizeof want);
    for (int i = 0; i < COUNT; i++)
        result[i] = kit_floats(&rng, COLS, 1);
    struct table_experts sum = {
        .y = got, .accumulate = true, .count = COUNT, .weight = weight, .result = result};
    k_experts_sum_ref_int8(&sum, 0, COLS);
    sum.y = want;
    k_experts_sum_ref(&sum, 0, COLS);
    kit_assert_close(got, want, COLS, 2e-6f);
    for (int i = 0; i < COUNT; i++)
        free((void *)(uintptr_t)result[i]);
    free(weight);
    free(got);
}

/* The slots are added in order: a large value that the next slot takes away leaves no room for a
 * small one before them. */
static void test_the_order(void **state)
{
    (void)state;
    const float large[1] = {1e8f};
    const float small[1] = {1};
    const float weight[3] = {1, 1, -1};
    const float *const result[3] = {small, large, large};
    const float rising[3] = {1, -1, 1};
    const float *const other[3] = {large, large, small};
    float y;
    struct table_experts sum = {.y = &y, .count = 3, .weight = weight, .result = result};
    k_experts_sum_ref_int8(&sum, 0, 1);
    assert_float_equal(y, 0, 0);
    sum.weight = rising;
    sum.result = other;
    k_experts_sum_ref_int8(&sum, 0, 1);
    assert_float_equal(y, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
