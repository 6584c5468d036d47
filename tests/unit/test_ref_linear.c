#include "kernels/cpu/ref/ref.h"

#include "tests/unit/kernels_kit.h"

/* Small whole numbers: every sum is exact, so the answer is known without rounding. */
static void test_exact_sums(void **state)
{
    (void)state;
    enum { OUTPUTS = 19, COLS = 43, ROWS = 3 };
    float w[OUTPUTS * COLS];
    float x[ROWS * COLS];
    float y[ROWS * OUTPUTS];
    float scratch[COLS];
    float bias[OUTPUTS];
    for (int o = 0; o < OUTPUTS; o++)
        bias[o] = (float)(o - 5);
    for (int i = 0; i < OUTPUTS * COLS; i++)
        w[i] = (float)(i % 13 - 6);
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = (float)(i % 7 - 3);
    struct weight weight = {.type = tensor_type_info(TENSOR_TYPE_f32),
                            .rows = OUTPUTS,
                            .cols = COLS,
                            .packed = w,
                            .packed_bytes = sizeof w};
    struct table_linear call = {.weight = &weight,
                                .x = x,
                                .rows = ROWS,
                                .group_end = 2,
                                .y = y,
                                .y_stride = OUTPUTS,
                                .scratch = scratch};
    k_linear_f32_ref(&call);
    call.accumulate = true;
    call.bias = bias;
    k_linear_f32_ref(&call);
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < OUTPUTS; o++) {
            int sum = 0;
            for (int i = 0; i < COLS; i++)
                sum += ((o * COLS + i) % 13 - 6) * ((r * COLS + i) % 7 - 3);
            assert_float_equal(y[r * OUTPUTS + o], (float)(2 * sum + o - 5), 0);
        }
}

/* A part of the groups writes its own outputs and no others. */
static void test_parts(void **state)
{
    (void)state;
    enum { OUTPUTS = 40, COLS = 32 };
    struct rng rng = {.seed = 1};
    struct tensor tensor = kit_tensor(&rng, TENSOR_TYPE_q4_0, OUTPUTS, COLS);
    char *packed = malloc(k_weight_bytes_ref(tensor.type, OUTPUTS, COLS));
    k_weight_pack_ref(&tensor, 2, 3, packed);
    k_weight_pack_ref(&tensor, 0, 2, packed);
    assert_memory_equal(packed, tensor.data, tensor.bytes);
    struct weight weight = {.type = tensor.type,
                            .rows = OUTPUTS,
                            .cols = COLS,
                            .packed = packed,
                            .packed_bytes = tensor.bytes};
    float *x = kit_floats(&rng, COLS, 1);
    float y[OUTPUTS];
    float scratch[COLS];
    for (int o = 0; o < OUTPUTS; o++)
        y[o] = 99;
    struct table_linear call = {.weight = &weight,
                                .x = x,
                                .rows = 1,
                                .group_begin = 1,
                                .group_end = 2,
                                .y = y + 16,
                                .y_stride = OUTPUTS,
                                .scratch = scratch};
    k_linear_f32_ref(&call);
    for (int o = 0; o < OUTPUTS; o++)
        assert_int_equal(y[o] == 99.0f, o < 16 || o >= 32);
    free(packed);
    free(x);
    kit_tensor_free(&tensor);
}

static void test_inputs_are_not_packed(void **state)
{
    (void)state;
    float x = 1;
    for (size_t t = 0; t < KIT_TYPES; t++)
        assert_false(k_input_wanted_ref(tensor_type_info(kit_types[t])));
    assert_int_equal(k_input_bytes_ref(7, 64), 0);
    assert_int_equal(k_input_units_ref(7, 64), 0);
    k_input_pack_ref(&(struct table_input){.x = &x, .rows = 1, .cols = 1}, 0, 0, NULL);
    assert_float_equal(x, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_sums),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_inputs_are_not_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
