/* Equal bits of avx512 and ref_int8 over a grid around the tiles of 16 outputs and 16 rows. */
#include "kernels/cpu/avx512/avx512.h"

#include "tests/unit/kernels_kit.h"

static void compare(struct kernels *fast, struct kernels *judge, struct rng *rng, uint32_t type,
                    uint32_t rows, uint32_t outputs, uint32_t cols)
{
    struct tensor tensor = kit_tensor(rng, type, outputs, cols);
    float *x = kit_floats(rng, (size_t)rows * cols + 1, 3);
    float *a = kit_floats(rng, (size_t)rows * outputs + 1, 1);
    float *b = malloc(((size_t)rows * outputs + 1) * sizeof *b);
    memcpy(b, a, ((size_t)rows * outputs + 1) * sizeof *b);
    if (rows > 0)
        memset(x + 1, 0, cols / 2 * sizeof *x); /* blocks of zeros */
    bool accumulate = rng_below(rng, 2) == 1;
    /* One float beyond the start of the allocation: no pointer is aligned to a vector. */
    kit_linear(fast, &tensor, x + 1, rows, a + 1, accumulate);
    kit_linear(judge, &tensor, x + 1, rows, b + 1, accumulate);
    kit_assert_same_bits(a, b, (size_t)rows * outputs + 1);
    free(x);
    free(a);
    free(b);
    kit_tensor_free(&tensor);
}

static void check_type(uint32_t type)
{
    static const uint32_t row_counts[] = {0, 1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31, 32, 33, 70};
    static const uint32_t output_counts[] = {1, 15, 16, 17, 32, 49};
    static const uint32_t col_counts[] = {32, 96, 576};
    struct rng rng = {.seed = type};
    struct kernels *fast = kit_fast(2, 70, 576);
    if (fast == NULL)
        return;
    struct kernels *judge = kit_kernels("ref_int8", 1, 70, 576);
    for (size_t r = 0; r < sizeof row_counts / sizeof *row_counts; r++)
        for (size_t o = 0; o < sizeof output_counts / sizeof *output_counts; o++)
            compare(fast, judge, &rng, type, row_counts[r], output_counts[o],
                    col_counts[rng_below(&rng, 3)]);
    kernels_destroy(fast);
    kernels_destroy(judge);
}

static void test_q4_0(void **state)
{
    (void)state;
    check_type(TENSOR_TYPE_q4_0);
}

static void test_q4_1(void **state)
{
    (void)state;
    check_type(TENSOR_TYPE_q4_1);
}

static void test_q8_0(void **state)
{
    (void)state;
    check_type(TENSOR_TYPE_q8_0);
}

/* Greatest codes against inputs of one sign: sums of products must not saturate. */
static void test_extremes(void **state)
{
    (void)state;
    enum { OUTPUTS = 16, COLS = 64, ROWS = 2 };
    struct kernels *fast = kit_fast(1, ROWS, COLS);
    if (fast == NULL)
        return;
    struct rng rng = {.seed = 9};
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_q8_0, OUTPUTS, COLS);
    const uint16_t one = half_from_float(1);
    unsigned char *block = (unsigned char *)(uintptr_t)tensor.data;
    for (uint32_t b = 0; b < OUTPUTS * COLS / 32; b++, block += 34) {
        memcpy(block, &one, sizeof one);
        memset(block + 2, b % 2 ? 127 : 128, 32); /* 127 and −128 */
    }
    float x[ROWS * COLS];
    float y[ROWS * OUTPUTS];
    for (uint32_t i = 0; i < ROWS * COLS; i++)
        x[i] = i < COLS ? -127.0f : (i % 64 < 32 ? 127.0f : -127.0f);
    kit_linear(fast, &tensor, x, ROWS, y, false);
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        assert_float_equal(y[o], 32 * -127 * (127 - 128), 0);
        assert_float_equal(y[OUTPUTS + o], 32 * 127 * (-128 - 127), 0);
    }
    kit_tensor_free(&tensor);
    kernels_destroy(fast);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_q4_0),
        cmocka_unit_test(test_q4_1),
        cmocka_unit_test(test_q8_0),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
