/* Accuracy of the fixed operations against the formula in double. */
#include "kernels/cpu/ref_int8/ref_int8.h"

#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels_kit.h"

static void test_exp(void **state)
{
    (void)state;
    struct rng rng = {.seed = 1};
    for (int i = 0; i < 400000; i++) {
        float x = kit_float(&rng) * 87;
        if (x < FIXED_MATH_EXP_MIN)
            continue;
        double want = exp((double)x);
        assert_true(fabs((double)fixed_math_exp(x) - want) <= 1.3e-7 * want);
    }
    assert_float_equal(fixed_math_exp(0), 1, 0);
    assert_float_equal(fixed_math_exp(-0.0f), 1, 0);
    assert_float_equal(fixed_math_exp(-INFINITY), 0, 0);
    assert_float_equal(fixed_math_exp(nextafterf(FIXED_MATH_EXP_MIN, -INFINITY)), 0, 0);
    assert_true(fixed_math_exp(FIXED_MATH_EXP_MIN) > 0);
    assert_true(isfinite(fixed_math_exp(FIXED_MATH_EXP_MAX)));
    assert_true(isinf(fixed_math_exp(nextafterf(FIXED_MATH_EXP_MAX, INFINITY))));
    assert_true(isinf(fixed_math_exp(INFINITY)));
    assert_true(isnan(fixed_math_exp(NAN)));
}

static void test_fold_and_max(void **state)
{
    (void)state;
    float lanes[16] = {0};
    lanes[0] = 1e8f;
    lanes[8] = -1e8f; /* paired first: nothing of the ones is lost */
    for (int i = 1; i < 8; i++)
        lanes[i] = 1;
    assert_float_equal(fixed_math_fold16(lanes), 7, 0);
    assert_float_equal(fixed_math_max(1, 2), 2, 0);
    assert_float_equal(fixed_math_max(NAN, 2), 2, 0);
    assert_true(isnan(fixed_math_max(2, NAN)));
}

/* Over the whole range of floats, and densely near 0. */
static void test_acts_close_to_ref(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    for (int i = 0; i < 100000; i++) {
        const float x = kit_float(&rng) * (i % 3 == 0 ? 100 : i % 3 == 1 ? 14 : 1);
        const float up = kit_float(&rng) * 9;
        for (enum act_kind kind = ACT_SILU_MUL; kind <= ACT_GELU_ERF; kind++) {
            float a = x;
            float b = x;
            struct act_args args = {.kind = kind, .x = &a, .up = &up, .rows = 1, .cols = 1};
            k_act_ref_int8(&args, 0, 1);
            args.x = &b;
            k_act_ref(&args, 0, 1);
            assert_true(fabsf(a - b) <= 4e-7f * fmaxf(1, fabsf(b)));
        }
        float a = x * 4;
        float b = x * 4;
        k_softcap_ref_int8(&a, 1, 30);
        k_softcap_ref(&b, 1, 30);
        assert_true(fabsf(a - b) <= 8e-6f);
    }
}

static void test_close_to_ref(void **state)
{
    (void)state;
    enum { ROWS = 3, COLS = 100 };
    struct rng rng = {.seed = 2};
    float *x = kit_floats(&rng, ROWS * COLS, 6);
    float *w = kit_floats(&rng, ROWS * COLS, 2);
    float a[ROWS * COLS];
    float b[ROWS * COLS];
    struct norm_args norm = {
        .x = x, .weight = w, .y = a, .rows = ROWS, .cols = COLS, .epsilon = 1e-5f};
    k_norm_ref_int8(&norm, 0, ROWS);
    norm.y = b;
    k_norm_ref(&norm, 0, ROWS);
    kit_assert_close(a, b, ROWS * COLS, 2e-6f);
    norm.kind = NORM_LAYER;
    norm.bias = w + COLS;
    k_norm_ref(&norm, 0, ROWS);
    norm.y = a;
    k_norm_ref_int8(&norm, 0, ROWS);
    kit_assert_close(a, b, ROWS * COLS, 3e-6f);
    memcpy(a, x, sizeof a);
    memcpy(b, x, sizeof b);
    struct act_args silu = {.kind = ACT_SILU_MUL, .x = a, .up = w, .rows = ROWS, .cols = COLS};
    k_act_ref_int8(&silu, 0, ROWS);
    silu.x = b;
    k_act_ref(&silu, 0, ROWS);
    kit_assert_close(a, b, ROWS * COLS, 4e-6f);
    struct rope_args rope = {.x = a,
                             .table = w,
                             .rows = 1,
                             .heads = 2,
                             .head_dim = 50,
                             .pairs = 24,
                             .pairing = ROPE_HALVES};
    memcpy(a, b, sizeof a);
    k_rope_ref_int8(&rope, 0, 1);
    rope.x = b;
    k_rope_f32_ref(&rope, 0, 1);
    kit_assert_close(a, b, ROWS * COLS, 4e-6f);
    struct logits_stats mine;
    struct logits_stats want;
    float sum = k_logits_stats_ref_int8(x, COLS, &mine);
    float want_sum = k_logits_stats_ref(x, COLS, &want);
    assert_int_equal(mine.argmax, want.argmax);
    assert_float_equal(mine.max, want.max, 0);
    assert_float_equal(sum, want_sum, 3e-6f * want_sum);
    free(x);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_fold_and_max),
        cmocka_unit_test(test_acts_close_to_ref),
        cmocka_unit_test(test_close_to_ref),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
