#include "kernels/types/types.h"

#include "tests/unit/kernels_kit.h"

/* The definition of binary16, with ldexp. */
static double half_value(uint16_t half)
{
    int exponent = (half >> 10) & 31;
    double fraction = half & 0x3ff;
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == 0)
        return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

static void test_every_half(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t half = (uint16_t)i;
        unsigned char row[3];
        float out;
        memcpy(row + 1, &half, sizeof half);
        type_f16_to_f32(row + 1, &out, 1);
        if ((half & 0x7c00) != 0x7c00)
            assert_true((double)out == half_value(half));
        else if ((half & 0x3ff) == 0)
            assert_true(isinf(out) && (out < 0) == ((half & 0x8000) != 0));
        else
            assert_true(isnan(out));
        if (!isnan(out)) /* and back */
            assert_int_equal(half_from_float(out), half);
    }
}

/* Between neighbours the nearer one wins, in the middle the even one. */
static void test_rounding_to_half(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 0x7bff; i++) {
        float low = half_to_float((uint16_t)i);
        float high = half_to_float((uint16_t)(i + 1));
        float middle = (low + high) / 2; /* exact: one bit more */
        assert_int_equal(half_from_float(middle), i % 2 == 0 ? i : i + 1);
        assert_int_equal(half_from_float(nextafterf(middle, -1)), i);
        assert_int_equal(half_from_float(nextafterf(middle, INFINITY)), i + 1);
    }
    assert_int_equal(half_from_float(65519.996f), 0x7bff);
    assert_int_equal(half_from_float(65520.0f), 0x7c00);
    assert_int_equal(half_from_float(-1e30f), 0xfc00);
    assert_int_equal(half_from_float(1e-30f), 0);
    assert_true(isnan(half_to_float(half_from_float(NAN))));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_rounding_to_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
