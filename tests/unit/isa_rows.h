/* isa_rows: equal bits of a table and ref_int8 in the operations by rows.
 *
 * Owns:     nothing. A test of one instruction set includes it and calls
 *           isa_rows_check(its name).
 * Not here: what a table's own test knows better.
 */
#pragma once

#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/cpu/ref_int8/ref_int8.h"
#include "kernels/dispatch/registry.h"
#include "tests/unit/kernels_kit.h"

static const uint32_t isa_rows_sizes[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 48, 100, 576};
enum { ISA_ROWS_SIZES = sizeof isa_rows_sizes / sizeof *isa_rows_sizes, ISA_ROWS = 3 };

static float *isa_rows_copy(const float *from, size_t n)
{
    float *out = malloc(n * sizeof *out);
    memcpy(out, from, n * sizeof *out);
    return out;
}

/* Equal bits, or NaN both: which NaN comes out is the processor's affair. */
static void isa_rows_assert_alike(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] == a[i] || b[i] == b[i])
            kit_assert_same_bits(a + i, b + i, 1);
}

/* Writes zeros, infinities, a NaN, and magnitudes from the least to the greatest over the first
 * elements, as far as there are so many. */
static void isa_rows_odd(float *x, size_t n)
{
    static const float odd[] = {0,      -0.0f, INFINITY, -INFINITY, NAN,       1e38f,     -1e38f,
                                1e-38f, -7,    7,        7.000001f, -7.00001f, 0x1p-149f, -87,
                                87,     13,    -13,      -13.3f,    30,        -30};
    for (size_t i = 0; i < n && i < sizeof odd / sizeof *odd; i++)
        x[i] = odd[i];
}

static void isa_rows_check_norm(const struct kernel_table *table, enum norm_kind kind,
                                bool has_bias, bool accumulate)
{
    struct rng rng = {.seed = 1};
    for (uint32_t i = 0; i < ISA_ROWS_SIZES; i++) {
        const size_t n = (size_t)ISA_ROWS * isa_rows_sizes[i];
        float *x = kit_floats(&rng, n + 1, 5);
        float *w = kit_floats(&rng, isa_rows_sizes[i] + 1, 2);
        float *bias = kit_floats(&rng, isa_rows_sizes[i] + 1, 2);
        float *a = kit_floats(&rng, n + 1, 1);
        float *b = isa_rows_copy(a, n + 1);
        struct norm_args args = {.x = x + 1,
                                 .weight = w + 1,
                                 .y = a + 1,
                                 .rows = ISA_ROWS,
                                 .cols = isa_rows_sizes[i],
                                 .epsilon = 1e-5f,
                                 .kind = kind,
                                 .bias = has_bias ? bias + 1 : NULL,
                                 .accumulate = accumulate};
        table->norm(&args, 0, ISA_ROWS);
        args.y = b + 1;
        k_norm_ref_int8(&args, 0, 1);
        k_norm_ref_int8(&args, 1, ISA_ROWS);
        kit_assert_same_bits(a, b, n + 1);
        free(x);
        free(w);
        free(bias);
        free(a);
        free(b);
    }
}

static void isa_rows_check_norms(const struct kernel_table *table)
{
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        isa_rows_check_norm(table, NORM_RMS, false, accumulate == 1);
        isa_rows_check_norm(table, NORM_LAYER, false, accumulate == 1);
        isa_rows_check_norm(table, NORM_LAYER, true, accumulate == 1);
    }
}

static void isa_rows_check_turn(const struct kernel_table *table, struct rng *rng,
                                enum rope_pairing pairing, uint32_t pairs, uint32_t head_dim,
                                bool has_norm)
{
    const uint32_t heads = 2;
    const size_t n = (size_t)ISA_ROWS * heads * head_dim;
    float *angles = kit_floats(rng, (size_t)ISA_ROWS * pairs * 2, 1);
    float *norm = kit_floats(rng, head_dim + 1, 2);
    float *a = kit_floats(rng, n + 1, 3);
    float *b = isa_rows_copy(a, n + 1);
    struct rope_args args = {.x = a + 1,
                             .table = angles,
                             .rows = ISA_ROWS,
                             .heads = heads,
                             .head_dim = head_dim,
                             .pairs = pairs,
                             .pairing = pairing,
                             .norm = has_norm ? norm + 1 : NULL,
                             .epsilon = 1e-6f};
    table->rope(&args, 0, ISA_ROWS);
    args.x = b + 1;
    k_rope_ref_int8(&args, 0, ISA_ROWS);
    kit_assert_same_bits(a, b, n + 1);
    free(angles);
    free(norm);
    free(a);
    free(b);
}

static void isa_rows_check_pairing(const struct kernel_table *table, enum rope_pairing pairing)
{
    struct rng rng = {.seed = 2};
    for (uint32_t i = 0; i < ISA_ROWS_SIZES; i++) {
        const uint32_t pairs = isa_rows_sizes[i];
        const uint32_t head_dim = 2 * pairs + (i % 2 ? 0 : 3); /* some dimensions not rotated */
        isa_rows_check_turn(table, &rng, pairing, pairs, head_dim, false);
        isa_rows_check_turn(table, &rng, pairing, pairs, head_dim, true);
        isa_rows_check_turn(table, &rng, pairing, 0, head_dim, true);
    }
}

static void isa_rows_check_rope(const struct kernel_table *table)
{
    isa_rows_check_pairing(table, ROPE_INTERLEAVED);
    isa_rows_check_pairing(table, ROPE_HALVES);
}

static void isa_rows_check_act(const struct kernel_table *table, enum act_kind kind)
{
    struct rng rng = {.seed = 3};
    for (uint32_t i = 0; i <= ISA_ROWS_SIZES; i++) {
        const uint32_t cols = i < ISA_ROWS_SIZES ? isa_rows_sizes[i] : 0;
        const size_t n = (size_t)ISA_ROWS * cols;
        float *a = kit_floats(&rng, n + 1, i % 3 == 0 ? 200 : 8);
        float *up = kit_floats(&rng, n + 1, i % 3 == 1 ? 9 : 3);
        isa_rows_odd(i % 2 == 0 ? a + 1 : up + 1, n);
        float *b = isa_rows_copy(a, n + 1);
        struct act_args args = {
            .kind = kind, .x = a + 1, .up = up + 1, .rows = ISA_ROWS, .cols = cols};
        table->act(&args, 0, 2);
        table->act(&args, 2, ISA_ROWS);
        args.x = b + 1;
        k_act_ref_int8(&args, 0, ISA_ROWS);
        isa_rows_assert_alike(a, b, n + 1);
        free(a);
        free(b);
        free(up);
    }
}

static void isa_rows_check_acts(const struct kernel_table *table)
{
    for (enum act_kind kind = ACT_SILU_MUL; kind <= ACT_GELU_ERF; kind++)
        isa_rows_check_act(table, kind);
}

static void isa_rows_check_softcap(const struct kernel_table *table)
{
    struct rng rng = {.seed = 8};
    for (uint32_t n = 0; n < 70; n++) {
        float *a = kit_floats(&rng, n + 1, n % 3 == 0 ? 400 : 30);
        if (n % 2 == 0)
            isa_rows_odd(a + 1, n);
        float *b = isa_rows_copy(a, n + 1);
        table->softcap(a + 1, n, n % 4 < 2 ? 30 : 50);
        k_softcap_ref_int8(b + 1, n, n % 4 < 2 ? 30 : 50);
        isa_rows_assert_alike(a, b, n + 1);
        free(a);
        free(b);
    }
}

static void isa_rows_check_logits_stats(const struct kernel_table *table)
{
    struct rng rng = {.seed = 5};
    for (uint32_t i = 0; i < ISA_ROWS_SIZES; i++)
        for (int repeat = 0; repeat < 20; repeat++) {
            struct logits_stats a;
            struct logits_stats b;
            float *x = kit_floats(&rng, isa_rows_sizes[i] + 1, 20);
            for (int ties = 0; ties < 3; ties++) /* the first of equal ones wins */
                x[1 + rng_below(&rng, isa_rows_sizes[i])] = repeat == 0 ? -INFINITY : 21;
            if (repeat == 1)
                for (uint32_t j = 0; j < isa_rows_sizes[i]; j++)
                    x[1 + j] = -INFINITY;
            if (repeat == 2)
                for (uint32_t j = 0; j < isa_rows_sizes[i]; j++)
                    x[1 + j] = j % 2 ? 0.0f : -0.0f;
            float sum_a = table->logits_stats(x + 1, isa_rows_sizes[i], &a);
            float sum_b = k_logits_stats_ref_int8(x + 1, isa_rows_sizes[i], &b);
            assert_int_equal(a.argmax, b.argmax);
            assert_int_equal(half_float_bits(a.max), half_float_bits(b.max));
            assert_true(half_float_bits(sum_a) == half_float_bits(sum_b) || repeat == 1);
            free(x);
        }
}

static void isa_rows_check_kv_write(const struct kernel_table *table, enum kv_type type)
{
    struct rng rng = {.seed = 6};
    struct kernels *fast = kit_fast(table->name, 1, 64, 64);
    for (uint32_t i = 0; i < ISA_ROWS_SIZES; i++) {
        if (isa_rows_sizes[i] > 100)
            continue;
        const uint32_t tokens = 37;
        uint32_t at[37];
        uint32_t sequence[37] = {0};
        uint32_t open_of[37];
        for (uint32_t t = 0; t < tokens; t++)
            at[t] = t;
        struct kit_pages a = kit_pages_make(fast, type, 16, 2, 2, isa_rows_sizes[i], 1, tokens);
        struct kit_pages b = kit_pages_make(fast, type, 16, 2, 2, isa_rows_sizes[i], 1, tokens);
        float *k = kit_floats(&rng, (size_t)tokens * 2 * isa_rows_sizes[i], i % 2 ? 70000 : 1e-4f);
        float *v = kit_floats(&rng, (size_t)tokens * 2 * isa_rows_sizes[i], 1);
        memset(k, 0, isa_rows_sizes[i] * sizeof *k);
        k[isa_rows_sizes[i]] = i % 3 == 0 ? INFINITY : NAN;
        v[0] = 1e-35f;
        struct kv_write_args args = {
            k, v, tokens, 0, 1, kit_rows(&a, sequence, at, tokens, open_of), {NULL}};
        table->kv_write(&args, 0, tokens);
        args.kv.pages = b.pages;
        args.kv.open = b.open;
        k_kv_write_ref(&args, 0, tokens);
        assert_memory_equal(a.pages, b.pages, a.layout.page_bytes * a.pages_each);
        if (a.open != NULL)
            assert_memory_equal(a.open, b.open, a.layout.open_bytes * a.pages_each);
        kit_pages_free(fast, &a);
        kit_pages_free(fast, &b);
        free(k);
        free(v);
    }
    kernels_destroy(fast);
}

/* Nothing before or behind is written. */
static void isa_rows_check_copy(const struct kernel_table *table)
{
    enum { BYTES = 64 * 7 };
    _Alignas(64) unsigned char from[BYTES];
    _Alignas(64) unsigned char to[BYTES + 128];
    struct rng rng = {.seed = 7};
    for (size_t i = 0; i < BYTES; i++)
        from[i] = (unsigned char)rng_next(&rng);
    for (size_t bytes = 0; bytes <= BYTES; bytes += 64) {
        memset(to, 0xee, sizeof to);
        table->copy(to + 64, from, bytes);
        assert_true(memcmp(to + 64, from, bytes) == 0);
        for (size_t i = 0; i < sizeof to; i++)
            assert_true(to[i] == 0xee || (i >= 64 && i < 64 + bytes));
    }
}

/* e^x of a vector of `lanes`: every exponent, both signs, the limits and their neighbours. */
static inline void isa_rows_check_exp(const char *isa, void (*exp_of)(const float *, float *),
                                      int lanes)
{
    if (!kernels_can_run(isa))
        return;
    struct rng rng = {.seed = 4};
    for (int i = 0; i < 3200000 / lanes; i++) {
        float in[16];
        float out[16];
        for (int j = 0; j < lanes; j++)
            in[j] = i % 2 == 0 ? kit_float(&rng) * 90 : half_bits_float((uint32_t)rng_next(&rng));
        in[0] = FIXED_MATH_EXP_MAX;
        in[1] = nextafterf(FIXED_MATH_EXP_MAX, INFINITY);
        in[2] = FIXED_MATH_EXP_MIN;
        in[3] = nextafterf(FIXED_MATH_EXP_MIN, -INFINITY);
        in[4] = -INFINITY;
        in[5] = INFINITY;
        exp_of(in, out);
        for (int j = 0; j < lanes; j++)
            if (in[j] == in[j])
                assert_int_equal(half_float_bits(out[j]), half_float_bits(fixed_math_exp(in[j])));
            else
                assert_true(out[j] != out[j]);
    }
}

static void isa_rows_check(const char *isa)
{
    const struct kernel_table *table = registry_find(isa);
    if (!kernels_can_run(isa))
        return;
    isa_rows_check_norms(table);
    isa_rows_check_rope(table);
    isa_rows_check_acts(table);
    isa_rows_check_softcap(table);
    isa_rows_check_logits_stats(table);
    for (int i = 0; i < KIT_KV_TYPES; i++)
        isa_rows_check_kv_write(table, kit_kv_types[i]);
    isa_rows_check_copy(table);
}
