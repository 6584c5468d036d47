#include "kernels/types/types.h"

#include "tests/unit/kernels_kit.h"

/* The high half of a float32, whatever it is. */
static void test_every_bf16(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t value = (uint16_t)i;
        unsigned char row[3];
        float out[2] = {0, 7};
        memcpy(row + 1, &value, sizeof value);
        type_bf16_to_f32(row + 1, out, 1);
        assert_int_equal(half_float_bits(out[0]), i << 16);
        assert_float_equal(out[1], 7, 0); /* nothing written behind */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
