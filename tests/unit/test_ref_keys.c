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

/* A Hadamard matrix spreads one element over its block, and is its own inverse; what is behind
 * whole blocks stays. */
static void test_hadamard(void **state)
{
    (void)state;
    float x[80] = {0};
    x[21] = 8;
    x[70] = 3;
    k_hadamard_ref(x, 80);
    for (uint32_t d = 0; d < 64; d++)
        assert_true(x[d] == (__builtin_popcount(d & 21) % 2 == 0 ? 1.0f : -1.0f));
    k_hadamard_ref(x, 80);
    for (uint32_t d = 0; d < 80; d++)
        assert_true(x[d] == (d == 21 ? 8.0f : d == 70 ? 3.0f : 0.0f));
}

/* Values packed and read again: half a step is the most that it moves a mixed one, and blocks have
 * steps of their own. What is behind the values in their last part is 0. */
static void test_values(void **state)
{
    (void)state;
    enum { WIDTH = 72, BYTES = 3 * 20, GROUP = 16 * (BYTES + 2) };
    struct rng rng = {.seed = 24};
    for (int repeat = 0; repeat < 200; repeat++) {
        const uint32_t token = (uint32_t)rng_below(&rng, 16);
        uint8_t group[GROUP];
        uint16_t again[WIDTH];
        float v[WIDTH];
        float mixed[WIDTH];
        memset(group, 0xee, sizeof group);
        for (uint32_t d = 0; d < WIDTH; d++)
            mixed[d] = v[d] = kit_float(&rng) * (d < 64 ? 20 : 0.01f);
        k_values_pack_ref(v, WIDTH, token, group);
        k_value_unpack_ref(group, WIDTH, token, again);
        k_hadamard_ref(mixed, WIDTH);
        for (uint32_t d = 0; d < WIDTH; d++) {
            float most = 0;
            for (uint32_t i = d / 64 * 64; i < WIDTH && i < d / 64 * 64 + 64; i++)
                most = fmaxf(most, fabsf(mixed[i]));
            /* a step is at most 9/8 of what it must be */
            assert_true(fabsf(half_to_float(again[d]) - mixed[d]) <= most / 16 * 1.1251f / 2);
        }
        for (uint32_t i = 8; i < 20; i++) /* 8 dimensions in the third part */
            assert_true(group[token * BYTES + 40 + i] == 0 || i == 16);
        for (uint32_t i = 0; i < 16 * BYTES; i++) /* no other token's */
            assert_true(i / BYTES == token || group[i] == 0xee);
        v[repeat % WIDTH] = repeat % 2 == 0 ? INFINITY : NAN;
        k_values_pack_ref(v, WIDTH, token, group);
        k_value_unpack_ref(group, WIDTH, token, again);
        for (uint32_t d = 0; d < WIDTH; d++)
            assert_int_equal(isnan(half_to_float(again[d])) != 0,
                             d / 64 == (uint32_t)repeat % WIDTH / 64);
        memset(v, 0, sizeof v);
        k_values_pack_ref(v, WIDTH, token, group);
        k_value_unpack_ref(group, WIDTH, token, again);
        for (uint32_t d = 0; d < WIDTH; d++)
            assert_int_equal(again[d], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_hadamard),
        cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
