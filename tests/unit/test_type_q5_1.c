#include "kernels/cpu/types/types.h"

#include "tests/unit/kernels_kit.h"

/* A block against what the format's own program (gguf 0.19, quants.dequantize) makes of it. */
static void test_a_block_of_the_format(void **state)
{
    (void)state;
    enum { VALUES = 32, BYTES = 24 };
    unsigned char row[1 + BYTES];
    float out[VALUES + 1];
    double sum = 0;
    double weighted = 0;
    out[VALUES] = 7;
    for (uint32_t i = 0; i < BYTES; i++)
        row[1 + i] = (unsigned char)(i * 37 + 11 + i * i / 7);
    kit_half(row + 1, 0.5f);
    kit_half(row + 3, -3);
    tensor_type_info(TENSOR_TYPE_q5_1)->to_f32(row + 1, out, VALUES);
    for (uint32_t i = 0; i < VALUES; i++) {
        sum += (double)out[i];
        weighted += (double)out[i] * (i + 1);
    }
    assert_float_equal(out[0], 11, 0);
    assert_float_equal(out[17], 8, 0);
    assert_float_equal(out[VALUES - 1], 2, 0);
    assert_true(sum == 167);
    assert_true(weighted == 2738);
    assert_float_equal(out[VALUES], 7, 0); /* nothing written behind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_block_of_the_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
