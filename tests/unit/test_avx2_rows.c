/* Equal bits of avx2 and ref_int8 in the operations by rows, around the vector of 8 lanes. */
#include "kernels/cpu/avx2/avx2.h"

#include "kernels/cpu/fixed_math.h"
#include "tests/unit/isa_rows.h"

static void test_same_bits(void **state)
{
    (void)state;
    isa_rows_check("avx2");
}

/* Every exponent, both signs, the limits and their neighbours. */
static void test_exp(void **state)
{
    (void)state;
    if (!kernels_can_run("avx2"))
        return;
    struct rng rng = {.seed = 4};
    for (int i = 0; i < 400000; i++) {
        float in[8];
        float out[8];
        for (int j = 0; j < 8; j++)
            in[j] = half_bits_float((uint32_t)rng_next(&rng));
        in[0] = FIXED_MATH_EXP_MAX;
        in[1] = nextafterf(FIXED_MATH_EXP_MAX, INFINITY);
        in[2] = FIXED_MATH_EXP_MIN;
        in[3] = nextafterf(FIXED_MATH_EXP_MIN, -INFINITY);
        in[4] = -INFINITY;
        in[5] = INFINITY;
        if (i % 2 == 0)
            for (int j = 0; j < 8; j++)
                in[j] = kit_float(&rng) * 90;
        k_exp_avx2(in, out);
        for (int j = 0; j < 8; j++)
            if (in[j] == in[j])
                assert_int_equal(half_float_bits(out[j]), half_float_bits(fixed_math_exp(in[j])));
            else
                assert_true(out[j] != out[j]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_exp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
