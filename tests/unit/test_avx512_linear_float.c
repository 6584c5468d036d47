/* Equal bits of avx512 and ref_int8 for F32, F16 and BF16 weights; the first two take inputs
 * unrounded. */
#include "kernels/kernels.h"

#include "tests/unit/kernels_kit.h"

static void check_type(uint32_t type)
{
    static const uint32_t row_counts[] = {0, 1, 7, 8, 9, 16, 17};
    static const uint32_t output_counts[] = {1, 15, 16, 17, 33};
    static const uint32_t col_counts[] = {1, 15, 16, 33, 100};
    struct rng rng = {.seed = type};
    struct kernels *fast = kit_fast("avx512", 2, 17, 100);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, 17, 100);
    for (size_t i = 0; i < 7 * 5 * 5; i++) {
        uint32_t rows = row_counts[i % 7];
        uint32_t outputs = output_counts[i / 7 % 5];
        uint32_t cols = col_counts[i / 35];
        struct tensor tensor = kit_tensor(&rng, type, outputs, cols);
        float *x = kit_floats(&rng, (size_t)rows * cols + 1, 3);
        float *a = kit_floats(&rng, (size_t)rows * outputs + 1, 1);
        float *b = malloc(((size_t)rows * outputs + 1) * sizeof *b);
        memcpy(b, a, ((size_t)rows * outputs + 1) * sizeof *b);
        kit_linear(fast, &tensor, x + 1, rows, a + 1, i % 2 == 0);
        kit_linear(judge, &tensor, x + 1, rows, b + 1, i % 2 == 0);
        kit_assert_same_bits(a, b, (size_t)rows * outputs + 1);
        free(x);
        free(a);
        free(b);
        kit_tensor_free(&tensor);
    }
    kernels_destroy(fast);
    kernels_destroy(judge);
}

static void test_f32(void **state)
{
    (void)state;
    check_type(TENSOR_TYPE_f32);
}

static void test_f16(void **state)
{
    (void)state;
    check_type(TENSOR_TYPE_f16);
}

static void test_bf16(void **state)
{
    (void)state;
    check_type(TENSOR_TYPE_bf16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
