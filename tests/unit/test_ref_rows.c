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

/* Rows of 4: mean 2, deviations ±1; then mean 0, deviations ±3. */
static void test_layer_norm_by_hand(void **state)
{
    (void)state;
    const float x[8] = {1, 3, 1, 3, -3, 3, 3, -3};
    const float w[4] = {1, 2, -1, 0.5f};
    const float bias[4] = {0, 1, 10, -1};
    float y[8];
    struct norm_args args = {.x = x, .weight = w, .y = y, .rows = 2, .cols = 4, .kind = NORM_LAYER};
    k_norm_ref(&args, 0, 2);
    const float want[8] = {-1, 2, 1, 0.5f, -1, 2, -1, -0.5f};
    for (int i = 0; i < 8; i++)
        assert_float_equal(y[i], want[i], 1e-7f);
    args.bias = bias;
    args.accumulate = true;
    k_norm_ref(&args, 0, 2);
    for (int i = 0; i < 8; i++)
        assert_float_equal(y[i], 2 * want[i] + bias[i % 4], 1e-6f);
}

/* A head of (3, 4) has mean square 12.5; behind the norm it turns by 90 degrees. */
static void test_norm_before_rope(void **state)
{
    (void)state;
    const float quarter[2] = {0, 1};
    const float w[3] = {1, 2, 5};
    float x[3] = {3, 4, 0};
    struct rope_args args = {
        .x = x, .table = quarter, .rows = 1, .heads = 1, .head_dim = 3, .pairs = 1, .norm = w};
    k_rope_f32_ref(&args, 0, 1);
    const double scale = 1 / sqrt(25.0 / 3);
    assert_float_equal(x[0], (float)(-8 * scale), 1e-6f);
    assert_float_equal(x[1], (float)(3 * scale), 1e-6f);
    assert_float_equal(x[2], 0, 0);
}

static void test_gates(void **state)
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
    /* gate at most 7, factor within ±7, plus one */
    float clamped[4] = {9, -2, 1, 1};
    const float factors[4] = {2, 9, -9, 0.5f};
    args = (struct act_args){
        .kind = ACT_CLAMPED_MUL, .x = clamped, .up = factors, .rows = 1, .cols = 4};
    k_act_ref(&args, 0, 1);
    assert_float_equal(clamped[0], (float)(7 / (1 + exp(-1.702 * 7)) * 3), 1e-6f);
    assert_float_equal(clamped[1], (float)(-2 / (1 + exp(1.702 * 2)) * 8), 1e-6f);
    assert_float_equal(clamped[2], (float)(1 / (1 + exp(-1.702)) * -6), 1e-6f);
    assert_float_equal(clamped[3], (float)(1 / (1 + exp(-1.702)) * 1.5), 1e-6f);
}

/* Values of torch.nn.functional.gelu in double, with approximate="tanh" and without. */
static void test_gelu(void **state)
{
    (void)state;
    const float x[4] = {1, -1, 3, -0.5f};
    const float by_tanh[4] = {0.841191990608277f, -0.158808009391723f, 2.99636260739932f,
                              -0.154285988961174f};
    const float by_erf[4] = {0.841344746068543f, -0.158655253931457f, 2.99595030973511f,
                             -0.154268769362926f};
    const float up[4] = {2, 2, -1, 4};
    for (enum act_kind kind = ACT_GELU_MUL; kind <= ACT_GELU_ERF; kind++) {
        float y[4];
        memcpy(y, x, sizeof y);
        k_act_ref(&(struct act_args){.kind = kind, .x = y, .up = up, .rows = 1, .cols = 4}, 0, 1);
        for (int i = 0; i < 4 && kind != ACT_CLAMPED_MUL; i++)
            assert_float_equal(y[i],
                               (kind == ACT_GELU_ERF ? by_erf : by_tanh)[i] *
                                   (kind == ACT_GELU_MUL ? up[i] : 1),
                               1e-6f);
    }
}

static void test_softcap(void **state)
{
    (void)state;
    float x[4] = {0, 15, -300, 0.001f};
    k_softcap_ref(x, 4, 30);
    assert_float_equal(x[0], 0, 0);
    assert_float_equal(x[1], (float)(30 * tanh(0.5)), 1e-6f);
    assert_float_equal(x[2], -30, 1e-6f);
    assert_float_equal(x[3], 0.001f, 1e-9f);
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
        cmocka_unit_test(test_layer_norm_by_hand),
        cmocka_unit_test(test_norm_before_rope),
        cmocka_unit_test(test_gates),
        cmocka_unit_test(test_gelu),
        cmocka_unit_test(test_softcap),
        cmocka_unit_test(test_logits_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
