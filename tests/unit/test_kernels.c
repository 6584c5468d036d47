#include "kernels/kernels.h"

#include "tests/unit/kernels_kit.h"

static const uint32_t weight_types[] = {TENSOR_TYPE_f32, TENSOR_TYPE_f16, TENSOR_TYPE_q4_0,
                                        TENSOR_TYPE_q4_1, TENSOR_TYPE_q8_0};

/* Linear layer of each type in `isa` against plain double sums over exact weights. */
static void check_linear(const char *isa, float tolerance)
{
    struct rng rng = {.seed = 1};
    struct kernels *kernels = kit_kernels(isa, 2, 8, 256);
    for (size_t t = 0; t < sizeof weight_types / sizeof weight_types[0]; t++) {
        enum { ROWS = 5, OUT = 37, COLS = 96 };
        struct tensor tensor = kit_tensor(&rng, weight_types[t], OUT, COLS);
        struct weight weight;
        assert_int_equal(kernels_weight_create(kernels, &weight, &tensor), STATUS_OK);
        float *x = kit_floats(&rng, ROWS * COLS, 1);
        float *y = kit_floats(&rng, ROWS * OUT, 1);
        float *want = malloc(ROWS * OUT * sizeof *want);
        for (uint32_t o = 0; o < OUT; o++) {
            float w[COLS];
            tensor_row_to_f32(&tensor, o, w);
            for (uint32_t r = 0; r < ROWS; r++) {
                double sum = (double)y[r * OUT + o];
                for (uint32_t i = 0; i < COLS; i++)
                    sum += (double)w[i] * (double)x[r * COLS + i];
                want[r * OUT + o] = (float)sum;
            }
        }
        struct linear_args args = {
            .x = x, .rows = ROWS, .count = 1, .weights = {&weight}, .y = {y}, .accumulate = true};
        kernels_linear(kernels, &args);
        kit_assert_close(y, want, ROWS * OUT, tolerance);
        kernels_weight_destroy(kernels, &weight);
        free(x);
        free(y);
        free(want);
        free((void *)(uintptr_t)tensor.data);
    }
    kernels_destroy(kernels);
}

static void test_linear_ref(void **state)
{
    (void)state;
    check_linear("ref", 1e-6f);
}

/* Rounding inputs of ±1 to 127 steps: error of a sum of 96 products with weights below 0.5. */
static void test_linear_ref_int8(void **state)
{
    (void)state;
    check_linear("ref_int8", 0.05f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linear_ref),
        cmocka_unit_test(test_linear_ref_int8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
