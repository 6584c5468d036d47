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

static void isa_rows_check_norm(const struct kernel_table *table)
{
    struct rng rng = {.seed = 1};
    for (uint32_t i = 0; i < ISA_ROWS_SIZES; i++) {
        const size_t n = (size_t)ISA_ROWS * isa_rows_sizes[i];
        float *x = kit_floats(&rng, n + 1, 5);
        float *w = kit_floats(&rng, isa_rows_sizes[i] + 1, 2);
        float *a = calloc(n + 1, sizeof *a);
        float *b = calloc(n + 1, sizeof *b);
        struct norm_args args = {.x = x + 1,
                                 .weight = w + 1,
                                 .y = a + 1,
                                 .rows = ISA_ROWS,
                                 .cols = isa_rows_sizes[i],
                                 .epsilon = 1e-5f};
        table->norm(&args, 0, ISA_ROWS);
        args.y = b + 1;
        k_norm_ref_int8(&args, 0, 1);
        k_norm_ref_int8(&args, 1, ISA_ROWS);
        kit_assert_same_bits(a, b, n + 1);
        free(x);
        free(w);
        free(a);
        free(b);
    }
}

static void isa_rows_check_pairing(const struct kernel_table *table, enum rope_pairing pairing)
{
    struct rng rng = {.seed = 2};
    for (uint32_t i = 0; i < ISA_ROWS_SIZES; i++) {
        const uint32_t heads = 2;
        const uint32_t pairs = isa_rows_sizes[i];
        const uint32_t head_dim = 2 * pairs + (i % 2 ? 0 : 3); /* some dimensions not rotated */
        const size_t n = (size_t)ISA_ROWS * heads * head_dim;
        float *angles = kit_floats(&rng, (size_t)ISA_ROWS * pairs * 2, 1);
        float *a = kit_floats(&rng, n + 1, 3);
        float *b = isa_rows_copy(a, n + 1);
        struct rope_args args = {.x = a + 1,
                                 .table = angles,
                                 .rows = ISA_ROWS,
                                 .heads = heads,
                                 .head_dim = head_dim,
                                 .pairs = pairs,
                                 .pairing = pairing};
        table->rope(&args, 0, ISA_ROWS);
        args.x = b + 1;
        k_rope_ref_int8(&args, 0, ISA_ROWS);
        kit_assert_same_bits(a, b, n + 1);
        free(angles);
        free(a);
        free(b);
    }
}

static void isa_rows_check_rope(const struct kernel_table *table)
{
    isa_rows_check_pairing(table, ROPE_INTERLEAVED);
    isa_rows_check_pairing(table, ROPE_HALVES);
}

static void isa_rows_check_act(const struct kernel_table *table)
{
    struct rng rng = {.seed = 3};
    for (uint32_t i = 0; i < ISA_ROWS_SIZES; i++) {
        const size_t n = (size_t)ISA_ROWS * isa_rows_sizes[i];
        float *a = kit_floats(&rng, n + 1, i % 3 == 0 ? 200 : 8);
        float *up = kit_floats(&rng, n + 1, 3);
        float *b = isa_rows_copy(a, n + 1);
        struct act_args args = {.kind = ACT_SILU_MUL,
                                .x = a + 1,
                                .up = up + 1,
                                .rows = ISA_ROWS,
                                .cols = isa_rows_sizes[i]};
        table->act(&args, 0, 2);
        table->act(&args, 2, ISA_ROWS);
        args.x = b + 1;
        k_act_ref_int8(&args, 0, ISA_ROWS);
        kit_assert_same_bits(a, b, n + 1);
        free(a);
        free(b);
        free(up);
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
            k, v, tokens, 1, kit_rows(&a, sequence, at, tokens, open_of), {NULL}};
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
    isa_rows_check_norm(table);
    isa_rows_check_rope(table);
    isa_rows_check_act(table);
    isa_rows_check_logits_stats(table);
    for (int i = 0; i < KIT_KV_TYPES; i++)
        isa_rows_check_kv_write(table, kit_kv_types[i]);
    isa_rows_check_copy(table);
}
