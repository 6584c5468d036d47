/* BF16 weights in avx512: equal bits of dot products, multiply-adds and ref_int8, of the greatest
 * and the smallest inputs too. */
#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/cpu_features.h"
#include "tests/unit/kernels_kit.h"

enum { ROWS_MAX = 35, OUTPUTS = 70 };

static void run_way(const struct weight *weight, const float *x, uint32_t rows, bool has_dots,
                    float *y)
{
    char *scratch = malloc(table_linear_scratch(weight->cols));
    const struct table_linear call = {.weight = weight,
                                      .x = x,
                                      .rows = rows,
                                      .group_end = table_groups(weight->rows),
                                      .y = y,
                                      .y_stride = weight->rows,
                                      .has_dots = has_dots,
                                      .scratch = scratch};
    k_linear_avx512(&call);
    free(scratch);
}

static void check_ways(struct rng *rng, uint32_t rows, uint32_t cols, int spread)
{
    struct kernels *judge = kit_kernels("ref_int8", 1, ROWS_MAX, cols);
    struct tensor tensor = kit_tensor(rng, TENSOR_TYPE_bf16, OUTPUTS, cols);
    uint16_t *w = (uint16_t *)(uintptr_t)tensor.data;
    float *x = kit_floats(rng, (size_t)rows * cols, 3);
    float *want = kit_floats(rng, (size_t)rows * OUTPUTS, 1);
    float *got = kit_floats(rng, (size_t)rows * OUTPUTS, 1);
    for (size_t i = 0; i < (size_t)rows * cols && spread > 0; i++)
        x[i] = ldexpf(x[i], (int)rng_below(rng, 2 * (uint64_t)spread) - spread);
    for (size_t i = 0; i < (size_t)OUTPUTS * cols && spread > 0; i++)
        w[i] = half_bf16_from_float(
            ldexpf(kit_float(rng), (int)rng_below(rng, 2 * (uint64_t)spread) - spread));
    if (spread > 60) { /* denormal ones */
        memset(w, 1, (size_t)cols * sizeof *w);
        x[0] = 1e-40f;
    }
    struct weight weight = {.type = tensor.type, .rows = OUTPUTS, .cols = cols};
    weight.packed_bytes = packed_weight_bytes(tensor.type, OUTPUTS, cols);
    weight.packed = malloc(weight.packed_bytes);
    packed_weight_pack(&tensor, 0, table_groups(OUTPUTS), weight.packed);
    kit_linear(judge, &tensor, x, rows, want, false);
    run_way(&weight, x, rows, false, got);
    kit_assert_same_bits(got, want, (size_t)rows * OUTPUTS);
    if (cpu_features() & CPU_FEATURE_AVX512_BF16) {
        memset(got, 0, (size_t)rows * OUTPUTS * sizeof *got);
        run_way(&weight, x, rows, true, got);
        kit_assert_same_bits(got, want, (size_t)rows * OUTPUTS);
    }
    free(weight.packed);
    free(x);
    free(want);
    free(got);
    kit_tensor_free(&tensor);
    kernels_destroy(judge);
}

static void test_same_bits(void **state)
{
    (void)state;
    static const uint32_t row_counts[] = {1, 2, 3, 4, 5, 8, 9, 16, 17, ROWS_MAX};
    static const uint32_t col_counts[] = {1, 2, 33, 100, 1024};
    static const int spreads[] = {0, 20, 62};
    struct rng rng = {.seed = 8};
    if (!kernels_can_run("avx512"))
        return;
    for (uint32_t i = 0; i < 10 * 5 * 3; i++)
        check_ways(&rng, row_counts[i % 10], col_counts[i / 10 % 5], spreads[i / 50]);
}

/* More rows than are rounded at once. */
static void test_chunks(void **state)
{
    (void)state;
    struct rng rng = {.seed = 9};
    const uint32_t cols = 16382;
    assert_true(table_linear_scratch(cols) < (size_t)ROWS_MAX * cols * sizeof(uint16_t));
    if (kernels_can_run("avx512"))
        check_ways(&rng, ROWS_MAX, cols, 3);
}

/* Infinities and NaN come through, those of one row in that row alone. */
static void test_not_finite(void **state)
{
    (void)state;
    enum { COLS = 31 };
    struct rng rng = {.seed = 10};
    struct kernels *fast = kit_fast("avx512", 1, 2, COLS);
    if (fast == NULL)
        return;
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_bf16, OUTPUTS, COLS);
    float *x = kit_floats(&rng, (size_t)2 * COLS, 1);
    float y[2 * OUTPUTS];
    const uint32_t nan = 0x7fffffff; /* rounding its bits would make it −0 */
    memcpy(&x[7], &nan, sizeof nan);
    kit_linear(fast, &tensor, x, 2, y, false);
    for (uint32_t o = 0; o < OUTPUTS; o++)
        assert_true(isnan(y[o]) && isfinite(y[OUTPUTS + o]));
    x[7] = -INFINITY;
    kit_linear(fast, &tensor, x, 2, y, false);
    for (uint32_t o = 0; o < OUTPUTS; o++)
        assert_true(!isfinite(y[o]) && isfinite(y[OUTPUTS + o]));
    free(x);
    kit_tensor_free(&tensor);
    kernels_destroy(fast);
}

/* Which way is faster is the machine's; that the ways agree is not. */
static void test_choice(void **state)
{
    (void)state;
    struct kernels *fast = kit_fast("avx512", 1, 1, 32);
    if (fast == NULL)
        return;
    if (!(cpu_features() & CPU_FEATURE_AVX512_BF16))
        assert_false(kernels_has_dots(fast));
    struct kernels *judge = kit_kernels("ref_int8", 1, 1, 32);
    assert_false(kernels_has_dots(judge));
    kernels_destroy(judge);
    kernels_destroy(fast);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
