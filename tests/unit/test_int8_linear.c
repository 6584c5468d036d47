#include "kernels/cpu/ref_int8/ref_int8.h"

#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels_kit.h"

static void test_quantise_block(void **state)
{
    (void)state;
    float x[TABLE_BLOCK] = {0};
    struct ref_int8_block block;
    x[0] = 127; /* a step is 1; halves go to the even neighbour */
    x[1] = 2.5f;
    x[2] = 3.5f;
    x[3] = -2.5f;
    x[4] = -127;
    x[5] = 0.49f;
    k_quantise_block_ref_int8(x, &block);
    const int8_t want[6] = {127, 2, 4, -2, -127, 0};
    assert_memory_equal(block.q, want, sizeof want);
    assert_float_equal(block.scale, 1, 0);
    assert_int_equal(block.sum, 4);
    for (int i = 0; i < TABLE_BLOCK; i++)
        x[i] = i % 2 ? 9e-31f : -9e-31f; /* below the limit: nothing */
    k_quantise_block_ref_int8(x, &block);
    assert_float_equal(block.scale, 0, 0);
    assert_int_equal(block.q[0], 0);
    x[7] = 1e-30f; /* at the limit */
    k_quantise_block_ref_int8(x, &block);
    assert_int_equal(block.q[7], 127);
    assert_int_equal(block.q[0], -114);
    x[7] = INFINITY;
    k_quantise_block_ref_int8(x, &block);
    assert_float_equal(block.scale, 0, 0);
}

/* Any block comes back within half a step. */
static void test_half_a_step(void **state)
{
    (void)state;
    struct rng rng = {.seed = 1};
    for (int repeat = 0; repeat < 500; repeat++) {
        struct ref_int8_block block;
        float *x = kit_floats(&rng, TABLE_BLOCK, ldexpf(1, (int)rng_below(&rng, 120) - 60));
        int32_t sum = 0;
        k_quantise_block_ref_int8(x, &block);
        for (int i = 0; i < TABLE_BLOCK; i++) {
            float back = (float)block.q[i] * block.scale;
            assert_true(fabsf(back - x[i]) <= block.scale * 0.5001f);
            sum += block.q[i];
        }
        assert_int_equal(block.sum, sum);
        free(x);
    }
}

/* Inputs that are whole multiples of their step lose nothing, so every type equals the formula up
 * to float32 rounding: a wrong offset, nibble order or sum would be far off. */
static void test_lossless_inputs(void **state)
{
    (void)state;
    enum { OUTPUTS = 21, COLS = 256, ROWS = 3 };
    struct rng rng = {.seed = 2};
    struct kernels *judge = kit_kernels("ref", 1, ROWS, COLS);
    struct kernels *kernels = kit_kernels("ref_int8", 1, ROWS, COLS);
    float x[ROWS * COLS];
    for (int i = 0; i < ROWS * COLS; i++) {
        float step = i / 32 % 2 ? 0.5f : 0.125f;
        x[i] = i % 32 == 0 ? 127 * step : step * (float)((int)rng_below(&rng, 255) - 127);
    }
    for (size_t t = 0; t < KIT_TYPES; t++) {
        struct tensor tensor = kit_tensor(&rng, kit_types[t], OUTPUTS, COLS);
        float y[ROWS * OUTPUTS];
        float want[ROWS * OUTPUTS];
        kit_linear(kernels, &tensor, x, ROWS, y, false);
        kit_linear(judge, &tensor, x, ROWS, want, false);
        kit_assert_close(y, want, ROWS * OUTPUTS, 4e-4f); /* sums of about ±300 in float32 */
        kit_tensor_free(&tensor);
    }
    kernels_destroy(judge);
    kernels_destroy(kernels);
}

/* The order of float operations, spelled out for one output of q4_1. */
static void test_order_of_operations(void **state)
{
    (void)state;
    enum { COLS = 64 };
    struct rng rng = {.seed = 3};
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_q4_1, 1, COLS);
    float *x = kit_floats(&rng, COLS, 3);
    float y = 0.7f;
    float want = 0;
    const unsigned char *block = tensor.data;
    for (int b = 0; b < 2; b++, block += 20) {
        struct ref_int8_block in;
        uint16_t d;
        uint16_t m;
        int32_t dot = 0;
        memcpy(&d, block, 2);
        memcpy(&m, block + 2, 2);
        k_quantise_block_ref_int8(x + 32 * b, &in);
        for (int i = 0; i < 16; i++)
            dot += (block[4 + i] & 15) * in.q[i] + (block[4 + i] >> 4) * in.q[16 + i];
        want = fmaf((float)dot, half_to_float(d) * in.scale, want);
        want = fmaf(half_to_float(m), in.scale * (float)in.sum, want);
    }
    want = 0.7f + want;
    struct kernels *kernels = kit_kernels("ref_int8", 1, 1, COLS);
    kit_linear(kernels, &tensor, x, 1, &y, true);
    kit_assert_same_bits(&y, &want, 1);
    kernels_destroy(kernels);
    kit_tensor_free(&tensor);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantise_block),
        cmocka_unit_test(test_half_a_step),
        cmocka_unit_test(test_lossless_inputs),
        cmocka_unit_test(test_order_of_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
