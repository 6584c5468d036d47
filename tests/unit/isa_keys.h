/* isa_keys: equal bytes and halves of a table and ref in packing keys of 4 bits and reading them.
 *
 * Owns:     nothing. A test of one instruction set includes it and calls isa_keys_check.
 * Not here: how near they are to the keys (test_ref_keys).
 */
#pragma once

#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels_kit.h"

enum { ISA_KEYS_DIMS = 67, ISA_KEYS_BYTES = 68 * 12 };

typedef void isa_keys_pack(const uint16_t *open, uint32_t n, void *group);
typedef void isa_keys_unpack(const void *group, uint32_t n, uint16_t *open);
typedef void isa_hadamard(float *x, uint32_t n);
typedef void isa_values_pack(const float *x, uint32_t n, uint32_t token, void *group);
typedef void isa_values_unpack(const void *group, uint32_t n, uint32_t tokens, uint16_t *to);

/* A NaN is one, with any bits. */
static inline void isa_keys_check_halves(const uint16_t *a, const uint16_t *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_true(a[i] == b[i] || (isnan(half_to_float(a[i])) && isnan(half_to_float(b[i]))));
}

/* 16 keys of a channel: of one value, of tiny and of great ranges, and what is not finite. */
static inline void isa_keys_fill(struct rng *rng, float scale, uint16_t open[16])
{
    const float least = rng_below(rng, 2) == 0 ? 0 : kit_float(rng) * 100;
    const bool is_flat = rng_below(rng, 8) == 0;
    for (uint32_t i = 0; i < 16; i++)
        open[i] = half_from_float(least + (is_flat ? 0 : kit_float(rng) * scale));
    if (rng_below(rng, 8) == 0)
        open[rng_below(rng, 16)] = (uint16_t)(0x7c00 + rng_below(rng, 2));
    if (rng_below(rng, 4) == 0)
        open[rng_below(rng, 16)] = 0x8000; /* −0 */
}

/* Equal bytes, and none behind. */
static inline void isa_keys_check(const char *isa, isa_keys_pack *pack, isa_keys_unpack *unpack)
{
    static const float scales[] = {1e-7f, 8, 60000};
    struct rng rng = {.seed = 8};
    if (!kernels_can_run(isa))
        return;
    for (int repeat = 0; repeat < 600; repeat++) {
        const uint32_t n = 1 + (uint32_t)rng_below(&rng, ISA_KEYS_DIMS);
        uint16_t open[ISA_KEYS_DIMS * 16];
        uint16_t again[2][ISA_KEYS_DIMS * 16];
        uint8_t group[2][ISA_KEYS_BYTES];
        memset(group, 0xee, sizeof group);
        memset(again, 0xee, sizeof again);
        for (uint32_t d = 0; d < n; d++)
            isa_keys_fill(&rng, scales[repeat % 3], open + (size_t)d * 16);
        pack(open, n, group[0]);
        k_keys_pack_ref(open, n, group[1]);
        assert_memory_equal(group[0], group[1], ISA_KEYS_BYTES);
        unpack(group[0], n, again[0]);
        k_keys_unpack_ref(group[0], n, again[1]);
        isa_keys_check_halves(again[0], again[1], ISA_KEYS_DIMS * 16);
    }
}

/* Elements of a value: of one size, of tiny and of great ranges, and what is not a finite half. */
static inline void isa_values_fill(struct rng *rng, float scale, uint32_t n, float *x)
{
    const float least = rng_below(rng, 2) == 0 ? 0 : kit_float(rng) * 100;
    const bool is_flat = rng_below(rng, 8) == 0;
    for (uint32_t d = 0; d < n; d++)
        x[d] = least + (is_flat ? 0 : kit_float(rng) * scale);
    if (rng_below(rng, 8) == 0)
        x[rng_below(rng, n)] = rng_below(rng, 2) == 0 ? NAN : -2e6f;
    for (uint32_t d = (uint32_t)rng_below(rng, 2) * n; d < n; d += 3)
        x[d] = d % 2 == 0 ? 0.0f : -0.0f;
}

/* The same of values: token by token in any order, and read up to any token. */
static inline void isa_values_check(const char *isa, isa_values_pack *pack,
                                    isa_values_unpack *unpack, isa_hadamard *hadamard)
{
    enum { DIMS = 140, BYTES = 16 * (5 * 20 + 3) };
    static const float scales[] = {1e-7f, 8, 60000};
    struct rng rng = {.seed = 9};
    if (!kernels_can_run(isa))
        return;
    for (int repeat = 0; repeat < 300; repeat++) {
        const uint32_t n = repeat % 4 == 0 ? 64 : 1 + (uint32_t)rng_below(&rng, DIMS);
        const uint32_t tokens = 1 + (uint32_t)rng_below(&rng, 16);
        uint16_t again[2][DIMS * 16];
        uint8_t group[2][BYTES];
        float *x = malloc(n * sizeof *x); /* exactly, so that a read behind it is found */
        assert_non_null(x);
        memset(group, 0xee, sizeof group);
        memset(again, 0xee, sizeof again);
        for (uint32_t t = 16; t-- > 0;) {
            isa_values_fill(&rng, scales[repeat % 3], n, x);
            pack(x, n, t, group[0]);
            k_values_pack_ref(x, n, t, group[1]);
        }
        float *mixed = malloc(n * sizeof *x);
        assert_non_null(mixed);
        memcpy(mixed, x, n * sizeof *x);
        hadamard(mixed, n);
        k_hadamard_ref(x, n);
        for (uint32_t d = 0; d < n; d++)
            assert_true(half_float_bits(mixed[d]) == half_float_bits(x[d]) ||
                        (isnan(mixed[d]) && isnan(x[d])));
        free(mixed);
        free(x);
        assert_memory_equal(group[0], group[1], BYTES);
        unpack(group[0], n, tokens, again[0]);
        for (uint32_t t = 0; t < tokens; t++)
            k_value_unpack_ref(group[0], n, t, again[1] + (size_t)t * n);
        isa_keys_check_halves(again[0], again[1], DIMS * 16);
    }
}
