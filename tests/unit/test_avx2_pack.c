#include "kernels/cpu/avx2/avx2.h"

#include "kernels/cpu/ref_int8/ref_int8.h"
#include "tests/unit/kernels_kit.h"

/* Same integers, scales and sums as the judge, wherever a row lands in the tiles. */
static void check_inputs(uint32_t rows, struct rng *rng)
{
    enum { COLS = 96, BLOCKS = 3 };
    float *x = kit_floats(rng, (size_t)rows * COLS, 5);
    char *packed = malloc(packed_input_bytes(rows, COLS) + 64);
    uint32_t units = k_input_units_avx2(rows, COLS);
    uint32_t middle = (uint32_t)rng_below(rng, units + 1);
    memset(x, 0, 32 * sizeof *x); /* a block of zeros */
    if (rows > 1)
        x[COLS] = INFINITY;
    k_input_pack_avx2(x, rows, COLS, middle, units, packed);
    k_input_pack_avx2(x, rows, COLS, 0, middle, packed);
    const uint32_t tiles = packed_tiles(rows, AVX2_TILE);
    for (uint32_t tile = 0; tile < tiles; tile++) {
        uint32_t first = packed_tile_begin(rows, tiles, tile);
        uint32_t n = packed_tile_begin(rows, tiles, tile + 1) - first;
        assert_in_range(n, 1, AVX2_TILE);
        for (uint32_t b = 0; b < BLOCKS; b++)
            for (uint32_t i = 0; i < n; i++) {
                const char *unit = packed + (first * BLOCKS + b * n) * PACKED_INPUT_BYTES;
                const char *factors = unit + n * 32;
                struct ref_int8_block want;
                float scaled_sum;
                int32_t start;
                k_quantise_block_ref_int8(x + (size_t)(first + i) * COLS + b * 32, &want);
                assert_memory_equal(unit + i * 32, want.q, 32);
                assert_memory_equal(factors + 4 * i, &want.scale, 4);
                scaled_sum = want.scale * (float)want.sum;
                start = -8 * want.sum;
                assert_memory_equal(factors + 4 * (n + i), &scaled_sum, 4);
                assert_memory_equal(factors + 4 * (2 * n + i), &start, 4);
                start = 0;
                for (uint32_t k = 16; k < 32; k++)
                    start -= 8 * want.q[k];
                assert_memory_equal(factors + 4 * (3 * n + i), &start, 4);
            }
    }
    free(x);
    free(packed);
}

static void test_inputs(void **state)
{
    (void)state;
    struct rng rng = {.seed = 2};
    for (uint32_t rows = 1; rows < 70 && kernels_can_run("avx2"); rows++)
        check_inputs(rows, &rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
