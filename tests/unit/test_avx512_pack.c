#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/ref_int8/ref_int8.h"
#include "tests/unit/kernels_kit.h"

/* The layouts of avx512.h, element by element, and zeros in lanes without an output. */
static void test_weight_layout(void **state)
{
    (void)state;
    if (!kernels_can_run("avx512"))
        return;
    enum { ROWS = 18, COLS = 64 };
    struct rng rng = {.seed = 1};
    struct tensor q4 = kit_tensor(&rng, TENSOR_TYPE_q4_1, ROWS, COLS);
    struct tensor q8 = kit_tensor(&rng, TENSOR_TYPE_q8_0, ROWS, COLS);
    unsigned char packed[2 * 2 * 544];
    const unsigned char *file = q4.data;
    assert_int_equal(k_weight_bytes_avx512(q4.type, ROWS, COLS), 2 * 2 * 320);
    memset(packed, 0xee, sizeof packed);
    k_weight_pack_avx512(&q4, 1, 2, packed);
    assert_int_equal(packed[0], 0xee); /* the other group is another thread's */
    k_weight_pack_avx512(&q4, 0, 1, packed);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t b = 0; b < 2; b++) {
            const unsigned char *unit = packed + (r / 16 * 2 + b) * 320;
            const unsigned char *block = file + (r * 2 + b) * 20;
            for (uint32_t i = 0; i < 16; i++)
                assert_int_equal(unit[i / 4 * 64 + r % 16 * 4 + i % 4], block[4 + i]);
            assert_memory_equal(unit + 256 + r % 16 * 2, block, 2);
            assert_memory_equal(unit + 288 + r % 16 * 2, block + 2, 2);
        }
    for (uint32_t lane = ROWS % 16; lane < 16; lane++)
        assert_int_equal(packed[2 * 320 + lane * 4], 0);
    file = q8.data;
    assert_int_equal(k_weight_bytes_avx512(q8.type, ROWS, COLS), sizeof packed);
    k_weight_pack_avx512(&q8, 0, 2, packed);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t b = 0; b < 2; b++)
            for (uint32_t i = 0; i < 32; i++)
                assert_int_equal(packed[(r / 16 * 2 + b) * 544 + i / 4 * 64 + r % 16 * 4 + i % 4],
                                 (file[(r * 2 + b) * 34 + 2 + i] + 128) & 255);
    kit_tensor_free(&q4);
    kit_tensor_free(&q8);
}

/* Same integers, scales and sums as the judge, wherever a row lands in the tiles. */
static void check_inputs(uint32_t rows, struct rng *rng)
{
    enum { COLS = 96, BLOCKS = 3 };
    float *x = kit_floats(rng, (size_t)rows * COLS, 5);
    char *packed = malloc(k_input_bytes_avx512(rows, COLS) + 64);
    uint32_t units = k_input_units_avx512(rows, COLS);
    uint32_t middle = (uint32_t)rng_below(rng, units + 1);
    memset(x, 0, 32 * sizeof *x); /* a block of zeros */
    if (rows > 1)
        x[COLS] = INFINITY;
    k_input_pack_avx512(x, rows, COLS, middle, units, packed);
    k_input_pack_avx512(x, rows, COLS, 0, middle, packed);
    const uint32_t tiles = avx512_tiles(rows);
    for (uint32_t tile = 0; tile < tiles; tile++) {
        uint32_t first = avx512_tile_begin(rows, tiles, tile);
        uint32_t n = avx512_tile_begin(rows, tiles, tile + 1) - first;
        assert_in_range(n, 1, AVX512_TILE);
        for (uint32_t b = 0; b < BLOCKS; b++)
            for (uint32_t i = 0; i < n; i++) {
                const char *unit = packed + (first * BLOCKS + b * n) * AVX512_INPUT_BYTES;
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
            }
    }
    free(x);
    free(packed);
}

static void test_inputs(void **state)
{
    (void)state;
    struct rng rng = {.seed = 2};
    for (uint32_t rows = 1; rows < 70 && kernels_can_run("avx512"); rows++)
        check_inputs(rows, &rng);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weight_layout),
        cmocka_unit_test(test_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
