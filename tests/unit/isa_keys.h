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

/* Equal bytes, and none behind; a NaN is one, with any bits. */
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
        for (uint32_t i = 0; i < ISA_KEYS_DIMS * 16; i++)
            assert_true(again[0][i] == again[1][i] ||
                        (isnan(half_to_float(again[0][i])) && isnan(half_to_float(again[1][i]))));
    }
}
