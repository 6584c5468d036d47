#include "kernels/types/types.h"

#include "tests/unit/kernels_kit.h"

static void test_blocks_by_hand(void **state)
{
    (void)state;
    float out[65];
    out[64] = 7;
    /* d = 0.25, m = −3; nibbles 0 … 15 low, 15 … 0 high. */
    unsigned char row[1 + 2 * 20] = {0};
    for (int b = 0; b < 2; b++) {
        unsigned char *block = row + 1 + 20 * b;
        uint16_t d = half_from_float(b == 0 ? 0.25f : -1.0f);
        uint16_t m = half_from_float(b == 0 ? -3.0f : 0.5f);
        memcpy(block, &d, sizeof d);
        memcpy(block + 2, &m, sizeof m);
        for (unsigned i = 0; i < 16; i++)
            block[4 + i] = (unsigned char)(i | (15 - i) << 4);
    }
    tensor_type_info(TENSOR_TYPE_q4_1)->to_f32(row + 1, out, 64);
    for (int i = 0; i < 16; i++) {
        assert_float_equal(out[i], 0.25f * (float)i - 3.0f, 0);
        assert_float_equal(out[16 + i], 0.25f * (float)(15 - i) - 3.0f, 0);
        assert_float_equal(out[32 + i], 0.5f - (float)i, 0);
        assert_float_equal(out[48 + i], 0.5f - (float)(15 - i), 0);
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
