#include "kernels/types/types.h"

#include "tests/unit/kernels_kit.h"

/* Each operation in its order, and a part without m keeps the sign of zeros. */
static void test_values(void **state)
{
    (void)state;
    struct types_part part = {.scales = {3, -2}, .min = 5};
    float out[TYPES_PART];
    part.d = half_from_float(0.5f);
    part.m = half_from_float(0.25f);
    for (int i = 0; i < TYPES_PART; i++)
        part.w[i] = (int8_t)(i - 16);
    types_part_to_f32(&part, out);
    for (int i = 0; i < TYPES_PART; i++)
        assert_float_equal(out[i], (i < 16 ? 1.5f : -1.0f) * (float)(i - 16) + 1.25f, 0);
    unsigned char d[2];
    kit_half(d, -1);
    types_plain(d, NULL, &part);
    part.w[3] = 0;
    types_part_to_f32(&part, out);
    assert_int_equal(half_float_bits(out[3]), 0x80000000u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
