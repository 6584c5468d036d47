#include "kernels/cpu/ref/ref.h"

#include "tests/unit/isa_sample.h"

static void test_same(void **state)
{
    (void)state;
    isa_sample_check("ref");
}

static void test_by_hand(void **state)
{
    (void)state;
    const float x[4] = {1, 3, NAN, 2};
    float out[4];
    uint32_t ids[4 + ROW_IDS_MORE];
    float sum = k_row_exp_ref((const float[]){0, 2, 1}, 3, 2, 0.5f, out);
    assert_float_equal(out[0], (float)exp(-1), 1e-6f);
    assert_float_equal(out[1], 1, 0);
    assert_float_equal(sum, (float)(1 + exp(-1) + exp(-0.5)), 1e-6f);
    assert_int_equal(k_row_above_ref(x, 4, 2, ids), 2);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 3);
    /* All but the NaN might reach a score below the least; nothing reaches one far above. */
    struct row_noise_args noise = {.x = x, .begin = 1, .end = 4, .stream = 5};
    kernels_row_noise_set(&noise, 1, -1);
    assert_int_equal(k_row_noise_ref(&noise, ids), 2);
    kernels_row_noise_set(&noise, 1, 200);
    assert_int_equal(k_row_noise_ref(&noise, ids), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
