#include "kernels/types/types.h"

#include "tests/unit/kernels_kit.h"

static void test_blocks_by_hand(void **state)
{
    (void)state;
    float out[65];
    out[64] = 7;
    /* d = 0.5 and −2; q from −128 in steps of 8. */
    unsigned char row[1 + 2 * 34] = {0};
    for (int b = 0; b < 2; b++) {
        unsigned char *block = row + 1 + 34 * b;
        uint16_t d = half_from_float(b == 0 ? 0.5f : -2.0f);
        memcpy(block, &d, sizeof d);
        for (int i = 0; i < 32; i++)
            block[2 + i] = (unsigned char)(int8_t)(-128 + 8 * i);
    }
    tensor_type_info(TENSOR_TYPE_q8_0)->to_f32(row + 1, out, 64);
    for (int i = 0; i < 32; i++) {
        assert_float_equal(out[i], 0.5f * (float)(-128 + 8 * i), 0);
        assert_float_equal(out[32 + i], -2.0f * (float)(-128 + 8 * i), 0);
    }
    assert_float_equal(out[64], 7, 0); /* nothing written behind */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
