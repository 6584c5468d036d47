#include "kernels/types/types.h"

#include "tests/unit/kernels_kit.h"

static void test_bits_are_kept_at_any_alignment(void **state)
{
    (void)state;
    const uint32_t bits[4] = {0x3f800000u, 0x80000001u, 0x7f800000u, 0xc2280000u};
    unsigned char row[1 + sizeof bits];
    float out[5] = {0, 0, 0, 0, 7};
    memcpy(row + 1, bits, sizeof bits);
    type_f32_to_f32(row + 1, out, 4);
    assert_memory_equal(out, bits, sizeof bits);
    assert_float_equal(out[4], 7, 0);
    out[0] = 9;
    type_f32_to_f32(row + 1, out, 0);
    assert_float_equal(out[0], 9, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_are_kept_at_any_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
