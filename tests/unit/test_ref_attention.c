#include "kernels/cpu/ref/ref.h"

#include "tests/unit/kernels_kit.h"

enum { TOKENS = 45, HEADS = 4, KV_HEADS = 2, DIM = 12 };

/* What a page keeps of element `dim` of a head whose elements begin at x. */
static double rounded(enum kv_type type, const float *x, uint32_t dim)
{
    int8_t codes[DIM];
    uint8_t bytes[DIM];
    if (type == KV_TYPE_F32)
        return (double)x[dim];
    if (type == KV_TYPE_BF16)
        return (double)half_bf16_to_float(half_bf16_from_float(x[dim]));
    if (type == KV_TYPE_FP8)
        return (double)(k_kv_fp8_ref(x, DIM, bytes) * half_e4m3_to_float(bytes[dim]));
    if (type == KV_TYPE_F16)
        return (double)half_to_float(half_from_float(x[dim]));
    return (double)(k_kv_codes_ref(x, DIM, codes) * (float)codes[dim]);
}

/* softmax(scale × q · K) · V over keys [first, keys) in two passes over the plain arrays. */
static void attend(enum kv_type type, const float *q, const float *k, const float *v,
                   uint32_t first, uint32_t keys, uint32_t kv_head, const float *sink, double cap,
                   double *out)
{
    double weights[TOKENS];
    double sum = sink != NULL ? exp((double)*sink) : 0;
    for (uint32_t j = first; j < keys; j++) {
        double score = 0;
        for (uint32_t d = 0; d < DIM; d++)
            score += (double)q[d] * rounded(type, k + (j * KV_HEADS + kv_head) * DIM, d);
        score *= 0.25;
        weights[j] = exp(cap > 0 ? cap * tanh(score / cap) : score);
        sum += weights[j];
    }
    for (uint32_t d = 0; d < DIM; d++) {
        out[d] = 0;
        for (uint32_t j = first; j < keys; j++)
            out[d] += weights[j] / sum * rounded(type, v + (j * KV_HEADS + kv_head) * DIM, d);
    }
}

/* Half a step is the most that rounding moves an element; what is not finite is seen. */
static void test_codes(void **state)
{
    (void)state;
    struct rng rng = {.seed = 22};
    int8_t codes[DIM];
    for (int repeat = 0; repeat < 100; repeat++) {
        float *x = kit_floats(&rng, DIM, repeat % 2 ? 1e-20f : 3e30f);
        float max = 0;
        for (uint32_t d = 0; d < DIM; d++)
            max = fmaxf(fabsf(x[d]), max);
        float scale = k_kv_codes_ref(x, DIM, codes);
        assert_float_equal(scale, max / 127, max * 1e-6f);
        for (uint32_t d = 0; d < DIM; d++)
            assert_true(fabsf(x[d] - scale * (float)codes[d]) <= 0.5001f * scale);
        x[repeat % DIM] = repeat % 3 == 0 ? NAN : -INFINITY;
        assert_true(isnan(k_kv_codes_ref(x, DIM, codes)));
        free(x);
    }
    float tiny[DIM] = {9e-31f, -9e-31f};
    assert_true(k_kv_codes_ref(tiny, DIM, codes) == 0);
    assert_int_equal(codes[0], 0);
}

static void check(enum kv_type type, uint32_t window, float softcap)
{
    static const float sinks[HEADS] = {1, -2, 0, 3};
    struct rng rng = {.seed = 21};
    struct kernels *kernels = kit_kernels("ref", 1, TOKENS, 64);
    struct kit_pages pages = kit_pages_make(kernels, type, 16, 2, KV_HEADS, DIM, 1, TOKENS);
    float *k = kit_floats(&rng, TOKENS * KV_HEADS * DIM, 2);
    float *v = kit_floats(&rng, TOKENS * KV_HEADS * DIM, 2);
    float *q = kit_floats(&rng, TOKENS * HEADS * DIM, 2);
    float *out = malloc(TOKENS * HEADS * DIM * sizeof *out);
    uint32_t sequence[TOKENS] = {0};
    uint32_t position[TOKENS];
    uint32_t open_of[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++)
        position[i] = i;
    struct kv_rows kv = kit_rows(&pages, sequence, position, TOKENS, open_of);
    struct kv_write_args write = {k, v, TOKENS, 0, 1, kv, {NULL}};
    k_kv_write_ref(&write, 0, TOKENS);
    struct attention_args args = {
        .q = q, .out = out, .rows = TOKENS, .heads = HEADS, .layer = 1, .scale = 0.25f, .kv = kv};
    args.window = window;
    args.softcap = softcap;
    args.sinks = window > 0 ? sinks : NULL;
    for (uint32_t h = 0; h < KV_HEADS; h++) {
        struct table_attention call = {.args = &args,
                                       .order = position, /* row i is token i */
                                       .rows = TOKENS,
                                       .kv_head = h,
                                       .head = h * 2,
                                       .heads = 2};
        k_attention_ref(&call);
    }
    for (uint32_t r = 0; r < TOKENS; r++)
        for (uint32_t h = 0; h < HEADS; h++) {
            double want[DIM];
            size_t at = (size_t)(r * HEADS + h) * DIM;
            attend(type, q + at, k, v, window > 0 && r + 1 > window ? r + 1 - window : 0, r + 1,
                   h / 2, window > 0 ? &sinks[h] : NULL, (double)softcap, want);
            for (uint32_t d = 0; d < DIM; d++)
                assert_float_equal(out[at + d], (float)want[d], 3e-7f);
        }
    kit_pages_free(kernels, &pages);
    kernels_destroy(kernels);
    free(k);
    free(v);
    free(q);
    free(out);
}

static void test_f32_pages(void **state)
{
    (void)state;
    check(KV_TYPE_F32, 0, 0);
}

static void test_f16_pages(void **state)
{
    (void)state;
    check(KV_TYPE_F16, 0, 0);
}

static void test_int8_pages(void **state)
{
    (void)state;
    check(KV_TYPE_I8, 0, 0);
}

static void test_pages_of_devices(void **state)
{
    (void)state;
    check(KV_TYPE_BF16, 0, 0);
    check(KV_TYPE_FP8, 0, 0);
}

static void test_windows_and_sinks(void **state)
{
    (void)state;
    check(KV_TYPE_F32, 1, 0);
    check(KV_TYPE_F16, 17, 0);
    check(KV_TYPE_FP8, TOKENS, 0);
}

static void test_softcap(void **state)
{
    (void)state;
    check(KV_TYPE_F32, 0, 0.5f);
    check(KV_TYPE_F16, 9, 50);
}

/* Every code is its own value's; what is between two goes to the nearer one, a tie to the even. */
static void test_float8(void **state)
{
    (void)state;
    for (uint32_t code = 0; code < 0x7e; code++) {
        const float low = half_e4m3_to_float((uint8_t)code);
        const float high = half_e4m3_to_float((uint8_t)(code + 1));
        const uint32_t even = code + code % 2;
        const float middle = low + (high - low) / 2;
        assert_true(low < high);
        assert_int_equal(half_e4m3_from_float(low), code);
        assert_int_equal(half_e4m3_from_float(middle), even);
        assert_int_equal(half_e4m3_from_float(nextafterf(middle, 0)), code);
        assert_int_equal(half_e4m3_from_float(nextafterf(middle, 500)), code + 1);
        assert_int_equal(half_e4m3_from_float(-middle), even | 0x80);
    }
    assert_true(half_e4m3_to_float(0x7e) == 448);
    assert_true(half_e4m3_to_float(1) == 0x1p-9f);
    for (int exponent = -117; exponent < 127; exponent++) { /* the greatest has its place */
        const float x[2] = {ldexpf(1.75f, exponent), ldexpf(-1.7500001f, exponent)};
        uint8_t codes[2];
        assert_true(k_kv_fp8_ref(x, 1, codes) == ldexpf(1, exponent - 8));
        assert_int_equal(codes[0], 0x7e);
        assert_true(k_kv_fp8_ref(x, 2, codes) == ldexpf(1, exponent - 7));
        assert_int_equal(codes[1], 0xf6);
    }
    const float odd[2] = {1, INFINITY};
    const float tiny[2] = {0x1p-119f, 0};
    uint8_t codes[2];
    assert_true(isnan(k_kv_fp8_ref(odd, 2, codes)));
    assert_int_equal(codes[0], 0);
    assert_true(k_kv_fp8_ref(tiny, 2, codes) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32_pages),        cmocka_unit_test(test_f16_pages),
        cmocka_unit_test(test_int8_pages),       cmocka_unit_test(test_codes),
        cmocka_unit_test(test_pages_of_devices), cmocka_unit_test(test_windows_and_sinks),
        cmocka_unit_test(test_softcap),          cmocka_unit_test(test_float8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
