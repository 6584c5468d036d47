#include "kernels/cpu/ref/ref.h"

#include "tests/unit/kernels_kit.h"

enum { DIM = 12 };

/* A group of keys packed and read again: half a step is the most that it moves one, and a half's
 * own rounding; what is not finite is seen. */
static void test_keys(void **state)
{
    (void)state;
    struct rng rng = {.seed = 23};
    for (int repeat = 0; repeat < 200; repeat++) {
        uint16_t open[DIM * 16];
        uint16_t again[DIM * 16];
        uint8_t group[DIM * 12];
        const float offset = kit_float(&rng) * 20;
        for (uint32_t i = 0; i < DIM * 16; i++)
            open[i] = half_from_float(offset + kit_float(&rng) * (float)(i / 16));
        k_keys_pack_ref(open, DIM, group);
        k_keys_unpack_ref(group, DIM, again);
        for (uint32_t d = 0; d < DIM; d++) {
            float min = INFINITY;
            float max = -INFINITY;
            for (uint32_t i = 0; i < 16; i++) {
                min = fminf(min, half_to_float(open[d * 16 + i]));
                max = fmaxf(max, half_to_float(open[d * 16 + i]));
            }
            const float step = (max - min) / 15;
            for (uint32_t i = 0; i < 16; i++)
                assert_true(
                    fabsf(half_to_float(again[d * 16 + i]) - half_to_float(open[d * 16 + i])) <=
                    0.51f * step + 0.001f * fmaxf(fabsf(min), fabsf(max)));
        }
        open[repeat % DIM * 16 + 3] = repeat % 2 == 0 ? 0x7c00 : 0x7e01; /* infinity, NaN */
        k_keys_pack_ref(open, DIM, group);
        k_keys_unpack_ref(group, DIM, again);
        for (uint32_t i = 0; i < DIM * 16; i++)
            assert_int_equal(isnan(half_to_float(again[i])) != 0, i / 16 == (uint32_t)repeat % DIM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
