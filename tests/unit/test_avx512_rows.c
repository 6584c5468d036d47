/* Equal bits of avx512 and ref_int8 in the operations by rows, around the vector of 16 lanes. */
#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/ref_int8/ref_int8.h"
#include "tests/unit/kernels_kit.h"

static const uint32_t sizes[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 48, 100, 576};
enum { SIZES = sizeof sizes / sizeof *sizes, ROWS = 3 };

static float *copy_of(const float *from, size_t n)
{
    float *out = malloc(n * sizeof *out);
    memcpy(out, from, n * sizeof *out);
    return out;
}

static void test_rmsnorm(void **state)
{
    (void)state;
    struct rng rng = {.seed = 1};
    for (uint32_t i = 0; i < SIZES && kernels_can_run("avx512"); i++) {
        const size_t n = (size_t)ROWS * sizes[i];
        float *x = kit_floats(&rng, n + 1, 5);
        float *w = kit_floats(&rng, sizes[i] + 1, 2);
        float *a = calloc(n + 1, sizeof *a);
        float *b = calloc(n + 1, sizeof *b);
        struct rmsnorm_args args = {x + 1, w + 1, a + 1, ROWS, sizes[i], 1e-5f};
        k_rmsnorm_avx512(&args, 0, ROWS);
        args.y = b + 1;
        k_rmsnorm_ref_int8(&args, 0, 1);
        k_rmsnorm_ref_int8(&args, 1, ROWS);
        kit_assert_same_bits(a, b, n + 1);
        free(x);
        free(w);
        free(a);
        free(b);
    }
}

static void check_rope(enum rope_pairing pairing)
{
    struct rng rng = {.seed = 2};
    for (uint32_t i = 0; i < SIZES && kernels_can_run("avx512"); i++) {
        const uint32_t heads = 2;
        const uint32_t pairs = sizes[i];
        const uint32_t head_dim = 2 * pairs + (i % 2 ? 0 : 3); /* some dimensions not rotated */
        const size_t n = (size_t)ROWS * heads * head_dim;
        float *table = kit_floats(&rng, (size_t)ROWS * pairs * 2, 1);
        float *a = kit_floats(&rng, n + 1, 3);
        float *b = copy_of(a, n + 1);
        struct rope_args args = {a + 1, table, ROWS, heads, head_dim, pairs, pairing};
        k_rope_avx512(&args, 0, ROWS);
        args.x = b + 1;
        k_rope_ref_int8(&args, 0, ROWS);
        kit_assert_same_bits(a, b, n + 1);
        free(table);
        free(a);
        free(b);
    }
}

static void test_rope(void **state)
{
    (void)state;
    check_rope(ROPE_INTERLEAVED);
    check_rope(ROPE_HALVES);
}

static void test_silu_mul(void **state)
{
    (void)state;
    struct rng rng = {.seed = 3};
    for (uint32_t i = 0; i < SIZES && kernels_can_run("avx512"); i++) {
        const size_t n = (size_t)ROWS * sizes[i];
        float *a = kit_floats(&rng, n + 1, i % 3 == 0 ? 200 : 8);
        float *up = kit_floats(&rng, n + 1, 3);
        float *b = copy_of(a, n + 1);
        struct silu_mul_args args = {a + 1, up + 1, ROWS, sizes[i]};
        k_silu_mul_avx512(&args, 0, 2);
        k_silu_mul_avx512(&args, 2, ROWS);
        args.gate = b + 1;
        k_silu_mul_ref_int8(&args, 0, ROWS);
        kit_assert_same_bits(a, b, n + 1);
        free(a);
        free(b);
        free(up);
    }
}

/* Every exponent, both signs, the limits and their neighbours. */
static void test_exp(void **state)
{
    (void)state;
    if (!kernels_can_run("avx512"))
        return;
    struct rng rng = {.seed = 4};
    for (int i = 0; i < 200000; i++) {
        float in[16];
        float out[16];
        for (int j = 0; j < 16; j++)
            in[j] = half_bits_float((uint32_t)rng_next(&rng));
        in[0] = FIXED_MATH_EXP_MAX;
        in[1] = nextafterf(FIXED_MATH_EXP_MAX, INFINITY);
        in[2] = FIXED_MATH_EXP_MIN;
        in[3] = nextafterf(FIXED_MATH_EXP_MIN, -INFINITY);
        in[4] = -INFINITY;
        in[5] = INFINITY;
        for (int j = 6; j < 12; j++)
            in[j] = kit_float(&rng) * 90;
        k_exp_avx512(in, out);
        for (int j = 0; j < 16; j++)
            if (in[j] == in[j])
                assert_int_equal(half_float_bits(out[j]), half_float_bits(fixed_math_exp(in[j])));
            else
                assert_true(out[j] != out[j]);
    }
}

static void test_logits_stats(void **state)
{
    (void)state;
    struct rng rng = {.seed = 5};
    for (uint32_t i = 0; i < SIZES && kernels_can_run("avx512"); i++)
        for (int repeat = 0; repeat < 20; repeat++) {
            struct logits_stats a;
            struct logits_stats b;
            float *x = kit_floats(&rng, sizes[i] + 1, 20);
            for (int ties = 0; ties < 3; ties++) /* the first of equal ones wins */
                x[1 + rng_below(&rng, sizes[i])] = repeat == 0 ? -INFINITY : 21;
            if (repeat == 1)
                for (uint32_t j = 0; j < sizes[i]; j++)
                    x[1 + j] = -INFINITY;
            if (repeat == 2)
                for (uint32_t j = 0; j < sizes[i]; j++)
                    x[1 + j] = j % 2 ? 0.0f : -0.0f;
            float sum_a = k_logits_stats_avx512(x + 1, sizes[i], &a);
            float sum_b = k_logits_stats_ref_int8(x + 1, sizes[i], &b);
            assert_int_equal(a.argmax, b.argmax);
            assert_int_equal(half_float_bits(a.max), half_float_bits(b.max));
            assert_true(half_float_bits(sum_a) == half_float_bits(sum_b) || repeat == 1);
            free(x);
        }
}

static void test_kv_write(void **state)
{
    (void)state;
    struct rng rng = {.seed = 6};
    struct kernels *fast = kit_fast(1, 64, 64);
    if (fast == NULL)
        return;
    for (uint32_t i = 0; i < SIZES; i++) {
        if (sizes[i] > 100)
            continue;
        const uint32_t tokens = 37;
        uint32_t at[37];
        uint32_t sequence[37] = {0};
        for (uint32_t t = 0; t < tokens; t++)
            at[t] = t;
        struct kit_pages a = kit_pages_make(fast, KV_TYPE_F16, 16, 2, 2, sizes[i], 1, tokens);
        struct kit_pages b = kit_pages_make(fast, KV_TYPE_F16, 16, 2, 2, sizes[i], 1, tokens);
        float *k = kit_floats(&rng, (size_t)tokens * 2 * sizes[i], i % 2 ? 70000 : 1e-4f);
        float *v = kit_floats(&rng, (size_t)tokens * 2 * sizes[i], 1);
        struct kv_write_args args = {k, v, tokens, 1, {&a.layout, a.pages, sequence, at, a.tables}};
        k_kv_write_avx512(&args, 0, tokens);
        args.kv.pages = b.pages;
        k_kv_write_ref(&args, 0, tokens);
        assert_memory_equal(a.pages, b.pages, a.layout.page_bytes * a.pages_each);
        kit_pages_free(fast, &a);
        kit_pages_free(fast, &b);
        free(k);
        free(v);
    }
    kernels_destroy(fast);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rmsnorm),      cmocka_unit_test(test_rope),
        cmocka_unit_test(test_silu_mul),     cmocka_unit_test(test_exp),
        cmocka_unit_test(test_logits_stats), cmocka_unit_test(test_kv_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
