#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/ref/ref.h"
#include "tests/unit/kernels_kit.h"

enum { DIMS = 67, BYTES = 68 * 12 };

/* 16 keys of a channel: of one value, of tiny and of great ranges, and what is not finite. */
static void channel_fill(struct rng *rng, float scale, uint16_t open[16])
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
static void test_same_bits(void **state)
{
    (void)state;
    static const float scales[] = {1e-7f, 8, 60000};
    struct rng rng = {.seed = 8};
    if (!kernels_can_run("avx512"))
        return;
    for (int repeat = 0; repeat < 600; repeat++) {
        const uint32_t n = 1 + (uint32_t)rng_below(&rng, DIMS);
        uint16_t open[DIMS * 16];
        uint16_t again[2][DIMS * 16];
        uint8_t group[2][BYTES];
        memset(group, 0xee, sizeof group);
        memset(again, 0xee, sizeof again);
        for (uint32_t d = 0; d < n; d++)
            channel_fill(&rng, scales[repeat % 3], open + (size_t)d * 16);
        k_keys_pack_avx512(open, n, group[0]);
        k_keys_pack_ref(open, n, group[1]);
        assert_memory_equal(group[0], group[1], BYTES);
        k_keys_unpack_avx512(group[0], n, again[0]);
        k_keys_unpack_ref(group[0], n, again[1]);
        for (uint32_t i = 0; i < DIMS * 16; i++)
            assert_true(again[0][i] == again[1][i] ||
                        (isnan(half_to_float(again[0][i])) && isnan(half_to_float(again[1][i]))));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
