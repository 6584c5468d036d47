/* isa_pack: inputs that a table packs against the judge's rounding of them.
 *
 * Owns:     nothing. A test of one instruction set includes it, and calls it where that can run.
 * Not here: rounding itself (kernels/cpu/ref_int8).
 */
#pragma once

#include "kernels/cpu/packed/packed.h"
#include "kernels/cpu/ref_int8/ref_int8.h"
#include "tests/unit/kernels_kit.h"

typedef uint32_t isa_pack_units(uint32_t rows, uint32_t cols);
typedef void isa_pack_inputs(const struct table_input *input, uint32_t begin, uint32_t end,
                             void *packed);

/* Same integers, scales and sums as the judge, wherever a row lands in the tiles. */
static void isa_pack_check_rows(isa_pack_units *units_of, isa_pack_inputs *pack, uint32_t most,
                                uint32_t rows, struct rng *rng)
{
    enum { BLOCKS = 19, COLS = 32 * BLOCKS }; /* more than 16 of a single row */
    float *x = kit_floats(rng, (size_t)rows * COLS, 5);
    char *packed = malloc(packed_input_bytes(rows, COLS) + 64);
    uint32_t units = units_of(rows, COLS);
    uint32_t middle = (uint32_t)rng_below(rng, units + 1);
    memset(x, 0, 32 * sizeof *x); /* a block of zeros */
    if (rows > 1) {
        x[COLS] = INFINITY;
        x[COLS + 33] = NAN;
    }
    struct table_input input = {.x = x, .rows = rows, .cols = COLS};
    pack(&input, middle, units, packed);
    pack(&input, 0, middle, packed);
    const uint32_t tiles = packed_tiles(rows, most);
    for (uint32_t tile = 0; tile < tiles; tile++) {
        uint32_t first = packed_tile_begin(rows, tiles, tile);
        uint32_t n = packed_tile_begin(rows, tiles, tile + 1) - first;
        assert_in_range(n, 1, most);
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

/* Rows normed on the way are packed as rows that were normed before, from whatever unit on. */
static void isa_pack_check_norm(isa_pack_units *units_of, isa_pack_inputs *pack, uint32_t rows,
                                enum norm_kind kind, struct rng *rng)
{
    enum { COLS = 32 * 7 };
    float *x = kit_floats(rng, (size_t)rows * COLS, 5);
    float *normed = kit_floats(rng, (size_t)rows * COLS, 1);
    float *norm = kit_floats(rng, COLS, 2);
    float *biases = kit_floats(rng, COLS, 2);
    const float *bias = kind == NORM_LAYER && rows % 3 > 0 ? biases : NULL;
    const size_t bytes = packed_input_bytes(rows, COLS);
    char *want = malloc(bytes + 64);
    char *packed = malloc(bytes + 64);
    const uint32_t units = units_of(rows, COLS);
    const uint32_t middle = (uint32_t)rng_below(rng, units + 1);
    const struct norm_args args = {.x = x,
                                   .weight = norm,
                                   .y = normed,
                                   .rows = rows,
                                   .cols = COLS,
                                   .epsilon = 1e-5f,
                                   .kind = kind,
                                   .bias = bias};
    struct table_input input = {.x = normed, .rows = rows, .cols = COLS};
    x[COLS - 1] = rows > 1 ? NAN : 3;
    k_norm_ref_int8(&args, 0, rows);
    pack(&input, 0, units, want);
    input = (struct table_input){.x = x,
                                 .rows = rows,
                                 .cols = COLS,
                                 .norm = norm,
                                 .norm_bias = bias,
                                 .norm_kind = kind,
                                 .epsilon = 1e-5f};
    pack(&input, middle, units, packed);
    pack(&input, 0, middle, packed);
    assert_memory_equal(packed, want, bytes);
    free(x);
    free(normed);
    free(norm);
    free(biases);
    free(want);
    free(packed);
}

/* Rows in an order are packed as rows that were gathered before. */
static void isa_pack_check_order(isa_pack_units *units_of, isa_pack_inputs *pack, uint32_t rows,
                                 struct rng *rng)
{
    enum { COLS = 32 * 5, OF = 9 };
    float *x = kit_floats(rng, (size_t)OF * COLS, 5);
    float *gathered = kit_floats(rng, (size_t)rows * COLS, 5);
    uint32_t *order = malloc(rows * sizeof *order);
    const size_t bytes = packed_input_bytes(rows, COLS);
    char *want = malloc(bytes + 64);
    char *packed = malloc(bytes + 64);
    const uint32_t units = units_of(rows, COLS);
    const uint32_t middle = (uint32_t)rng_below(rng, units + 1);
    for (uint32_t r = 0; r < rows; r++) {
        order[r] = (uint32_t)rng_below(rng, OF);
        memcpy(gathered + (size_t)r * COLS, x + order[r] * COLS, COLS * sizeof *x);
    }
    struct table_input input = {.x = gathered, .rows = rows, .cols = COLS};
    pack(&input, 0, units, want);
    input = (struct table_input){.x = x, .rows = rows, .cols = COLS, .order = order};
    pack(&input, middle, units, packed);
    pack(&input, 0, middle, packed);
    assert_memory_equal(packed, want, bytes);
    free(x);
    free(gathered);
    free(order);
    free(want);
    free(packed);
}

static void isa_pack_check(isa_pack_units *units_of, isa_pack_inputs *pack, uint32_t most)
{
    struct rng rng = {.seed = 2};
    for (uint32_t rows = 1; rows < 70; rows++) {
        isa_pack_check_rows(units_of, pack, most, rows, &rng);
        isa_pack_check_norm(units_of, pack, rows, NORM_RMS, &rng);
        isa_pack_check_norm(units_of, pack, rows, NORM_LAYER, &rng);
        isa_pack_check_order(units_of, pack, rows, &rng);
    }
}
