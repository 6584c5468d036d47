#include "kernels/cpu/ref/ref.h"

#include "tests/unit/kernels_kit.h"

static void test_rmsnorm_by_hand(void **state)
{
    (void)state;
    const float x[6] = {3, 4, 0, 0, 5, 12}; /* rows of 3: mean squares 25/3 and 169/3 */
    const float w[3] = {1, 2, -1};
    float y[6];
    struct norm_args args = {.x = x, .weight = w, .y = y, .rows = 2, .cols = 3, .epsilon = 0};
    k_norm_ref(&args, 0, 2);
    const double a = sqrt(3) / 5;
    const double b = sqrt(3) / 13;
    const double want[6] = {3 * a, 8 * a, 0, 0, 10 * b, -12 * b};
    for (int i = 0; i < 6; i++)
        assert_float_equal(y[i], (float)want[i], 1e-7f);
    const float zeros[3] = {0, 0, 0}; /* epsilon keeps it finite */
    struct norm_args none = {
        .x = zeros, .weight = w, .y = y, .rows = 1, .cols = 3, .epsilon = 1e-5f};
    k_norm_ref(&none, 0, 1);
    assert_float_equal(y[1], 0, 0);
}

static void test_rope_turns_by_the_angle(void **state)
{
    (void)state;
    const float quarter[4] = {0, 1, -1, 0}; /* 90 and 180 degrees */
    float x[10] = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5};
    struct rope_args args = {.x = x,
                             .table = quarter,
                             .rows = 1,
                             .heads = 2,
                             .head_dim = 5,
                             .pairs = 2,
                             .pairing = ROPE_INTERLEAVED};
    k_rope_f32_ref(&args, 0, 1);
    const float interleaved[5] = {-2, 1, -3, -4, 5};
    for (int i = 0; i < 10; i++)
        assert_float_equal(x[i], interleaved[i % 5], 0);
    float z[5] = {1, 2, 3, 4, 5};
    struct rope_args halves = {.x = z,
                               .table = quarter,
                               .rows = 1,
                               .heads = 1,
                               .head_dim = 5,
                               .pairs = 2,
                               .pairing = ROPE_HALVES};
    k_rope_f32_ref(&halves, 0, 1);
    const float apart[5] = {-3, -2, 1, -4, 5};
    for (int i = 0; i < 5; i++)
        assert_float_equal(z[i], apart[i], 0);
}

static void test_silu_mul(void **state)
{
    (void)state;
    float gate[5] = {0, 1, -1, 100, -100};
    const float up[5] = {3, 2, 2, 0.5f, 1};
    struct act_args args = {.kind = ACT_SILU_MUL, .x = gate, .up = up, .rows = 1, .cols = 5};
    k_act_ref(&args, 0, 1);
    assert_float_equal(gate[0], 0, 0);
    assert_float_equal(gate[1], (float)(2 / (1 + exp(-1))), 1e-7f);
    assert_float_equal(gate[2], (float)(-2 / (1 + exp(1))), 1e-7f);
    assert_float_equal(gate[3], 50, 0);
    assert_float_equal(gate[4], 0, 1e-40f);
}

static void test_logits_stats(void **state)
{
    (void)state;
    const float logits[5] = {-1, 2, 0, 2, 1};
    struct logits_stats stats;
    float sum = k_logits_stats_ref(logits, 5, &stats);
    assert_int_equal(stats.argmax, 1);
    assert_float_equal(stats.max, 2, 0);
    assert_float_equal(sum, (float)(2 + exp(-1) + exp(-2) + exp(-3)), 1e-6f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm_by_hand),
        cmocka_unit_test(test_rope_turns_by_the_angle),
        cmocka_unit_test(test_silu_mul),
        cmocka_unit_test(test_logits_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
