/* avx2_leaves: linear layers of coded types in 256-bit vectors: 16 outputs × up to 4 rows at a
 * time, so that each broadcast of an input serves two vectors of weights.
 *
 * Owns:     linear_coded. The including file first defines linear_dots, and LINEAR_IS_SIGNED, which
 *           says whether its products take codes of 8 bits signed.
 * Thread:   any compute thread; the stack holds a chunk's sums and a few units.
 * Cost:     a unit × 16 outputs × 1 row is 16 products of bytes with their sums, 2 conversions, 2
 *           multiplications, 2 to 4 multiply-adds and 10 broadcasts. With more rows than one tile,
 *           a unit is unpacked once for up to 64 rows.
 * Not here: products of bytes (avx2_linear, avxvnni_linear), float weights (avx2_linear). Included
 *           only by files built with the instruction set's flags.
 */
#pragma once

#include "kernels/cpu/avx2/avx2.h"
#include "kernels/cpu/avx2/avx2_unit.h"

enum {
    LINEAR_ROWS = 64, /* of a chunk: sums of 4 KiB */
    LINEAR_TILES = LINEAR_ROWS / AVX2_TILE + 1,
    LINEAR_UNITS = 8, /* unpacked at a time: 5.5 KiB; this much of a tile is read in one go */
    /* Inputs of a chunk stay in the second-level cache (256 KiB or more) while the groups are read.
     */
    LINEAR_CHUNK_BYTES = 128 * 1024,
    /* Prefetch distance: the processor's own prefetching ends at each page of 4 KiB. */
    LINEAR_AHEAD_BYTES = 8192,
};

/* An unpacked unit, used by all rows of a chunk. */
struct linear_unit {
    _Alignas(32) unsigned char codes[512]; /* [8][16 r][4], in the order of packed 8-bit codes */
    struct linear_factors factors[2];
};

/* Returns vector v of the unit's codes; `is_apart`: from an unpacked unit. */
static inline __attribute__((always_inline)) __m256i linear_weights(const struct types_form form,
                                                                    const bool is_apart,
                                                                    const unsigned char *codes,
                                                                    uint32_t half, const int v)
{
    return is_apart ? linear_load(codes + 64 * v + 32 * half) : linear_codes(form, codes, half, v);
}

/* Makes gcc compute a value here. gcc 12 moves expressions to their use, here behind all rows, and
 * keeps their operands on the stack. */
static inline __attribute__((always_inline)) __m256i linear_here(__m256i value)
{
    __asm__("" : "+x"(value));
    return value;
}

/* isum = products of vectors [from, to) of the unit, for n rows. */
static inline __attribute__((always_inline)) void
linear_dots(const struct types_form form, const bool is_apart, const unsigned char *codes,
            const char *input, const int n, const int from, const int to, __m256i (*isum)[2]);

/* Returns the correction for w's offset, which the exact integer sum of a row contains. */
static inline __attribute__((always_inline)) __m256i
linear_offset(const struct types_form form, const char *factors, const int n, const int part)
{
    const int shift = (int)form.bits - 4;
    __m256i last = linear_four(factors + (types_is_split(form) ? 12 : 8) * n);
    if (types_is_split(form) && part == 0)
        last = _mm256_sub_epi32(linear_four(factors + 8 * n), last);
    return shift > 0 ? _mm256_slli_epi32(last, shift) : last;
}

/* Adds one unit to n rows of y; `is_apart` and `n` are constants in every call. */
static inline __attribute__((always_inline)) void
linear_rows(const struct types_form form, const bool is_apart, const unsigned char *codes,
            const struct linear_factors unit[2], const char *input, const int n, __m256 (*y)[2])
{
    const int parts = types_is_split(form) ? 2 : 1;
    const bool has_offset = !form.has_m && !(LINEAR_IS_SIGNED && form.bits == 8);
#pragma GCC unroll 2
    for (int part = 0; part < parts; part++) {
        __m256i isum[AVX2_TILE][2];
        linear_dots(form, is_apart, codes, input, n, 8 / parts * part, 8 / parts * (part + 1),
                    isum);
        const char *factors = input + n * TABLE_BLOCK;
#pragma GCC unroll 4
        for (int t = 0; t < n; t++, factors += 4) {
            const __m256 scale = linear_factor(factors);
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                __m256i sum = isum[t][half];
                if (has_offset)
                    sum = _mm256_add_epi32(sum, linear_offset(form, factors, n, part));
                y[t][half] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum),
                                             _mm256_mul_ps(unit[half].d[part], scale), y[t][half]);
                if (form.has_m)
                    y[t][half] =
                        _mm256_fmadd_ps(unit[half].m, linear_factor(factors + 4 * n), y[t][half]);
            }
        }
    }
}

/* The address of a group's next unit and its factors. */
struct linear_place {
    const unsigned char *at;
    const unsigned char *super;
};

static inline __attribute__((always_inline)) void
linear_next(const struct types_form form, struct linear_place *place, uint32_t block)
{
    if (types_has_scales(form) && block % PACKED_UNITS == 0) {
        place->super = place->at;
        place->at += packed_factor_bytes(form);
    }
}

/* Computes one tile of n rows with its sums in registers; units are used as they are packed. */
static inline __attribute__((always_inline)) void
linear_few(const struct types_form form, const int n, const struct linear_block *block)
{
    struct linear_place place = {block->weights, NULL};
    const char *input = block->input;
    __m256 y[AVX2_TILE][2];
#pragma GCC unroll 4
    for (int t = 0; t < n; t++)
        y[t][0] = y[t][1] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < block->blocks; b++) {
        linear_next(form, &place, b);
        const struct linear_factors factors[2] = {linear_factors(form, place.super, place.at, 0),
                                                  linear_factors(form, place.super, place.at, 1)};
        for (size_t line = 0; line < packed_unit_bytes(form); line += 64)
            _mm_prefetch((const char *)place.at + LINEAR_AHEAD_BYTES + line, _MM_HINT_T0);
        linear_rows(form, false, place.at, factors, input, n, y);
        place.at += packed_unit_bytes(form);
        input += n * PACKED_INPUT_BYTES;
    }
    linear_store(block, (uint32_t)n, y);
}

static inline __attribute__((always_inline)) void
linear_take_apart(const struct types_form form, const struct linear_place *place,
                  struct linear_unit *unit)
{
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++)
        for (uint32_t half = 0; half < 2; half++)
            _mm256_store_si256((__m256i *)(void *)(unit->codes + 64 * v + 32 * half),
                               linear_codes(form, place->at, half, v));
    for (uint32_t half = 0; half < 2; half++)
        unit->factors[half] = linear_factors(form, place->super, place->at, half);
}

/* Adds `count` unpacked units to a tile of n rows. */
static inline __attribute__((always_inline)) void
linear_tile(const struct types_form form, const int n, const struct linear_unit *units,
            uint32_t count, const char *input, __m256 (*y)[2])
{
    for (uint32_t u = 0; u < count; u++, input += n * PACKED_INPUT_BYTES)
        linear_rows(form, true, units[u].codes, units[u].factors, input, n, y);
}

static inline __attribute__((always_inline)) void linear_many(const struct types_form form,
                                                              const struct linear_block *block)
{
    struct linear_place place = {block->weights, NULL};
    struct linear_unit units[LINEAR_UNITS];
    __m256 y[LINEAR_ROWS][2];
    const uint32_t *row = block->row;
    for (uint32_t t = 0; t < row[block->tiles] - row[0]; t++)
        y[t][0] = y[t][1] = _mm256_setzero_ps();
    for (uint32_t b = 0; b < block->blocks; b += LINEAR_UNITS) {
        const uint32_t left = block->blocks - b;
        const uint32_t count = left < LINEAR_UNITS ? left : LINEAR_UNITS;
        for (uint32_t u = 0; u < count; u++, place.at += packed_unit_bytes(form)) {
            linear_next(form, &place, b + u);
            linear_take_apart(form, &place, &units[u]);
        }
        for (uint32_t tile = 0; tile < block->tiles; tile++) {
            const uint32_t n = row[tile + 1] - row[tile];
            const uint32_t first = row[tile] - row[0];
            const char *input =
                block->input + ((size_t)first * block->blocks + (size_t)b * n) * PACKED_INPUT_BYTES;
            /* a chunk with several tiles has tiles of 2 to 4 rows */
            switch (n) {
            case 2:
                linear_tile(form, 2, units, count, input, y + first);
                break;
            case 3:
                linear_tile(form, 3, units, count, input, y + first);
                break;
            default:
                linear_tile(form, AVX2_TILE, units, count, input, y + first);
                break;
            }
        }
    }
    linear_store(block, row[block->tiles] - row[0], y);
}

static inline __attribute__((always_inline)) void linear_run(const struct types_form form,
                                                             const struct linear_block *block)
{
    switch (block->tiles > 1 ? 0 : block->row[1] - block->row[0]) {
    case 1:
        linear_few(form, 1, block);
        break;
    case 2:
        linear_few(form, 2, block);
        break;
    case 3:
        linear_few(form, 3, block);
        break;
    case AVX2_TILE:
        linear_few(form, AVX2_TILE, block);
        break;
    default:
        linear_many(form, block);
        break;
    }
}

#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    static void LINEAR_LEAF(name)(const struct linear_block *block)                                \
    {                                                                                              \
        linear_run(types_form(id), block);                                                         \
    }
#define TENSOR_FLOAT(name, id, bytes)
#include "kernels/types/tensor_types.def"

static void linear_block_run(uint32_t type_id, const struct linear_block *block)
{
    switch (type_id) {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    case id:                                                                                       \
        LINEAR_LEAF(name)(block);                                                                  \
        break;
#define TENSOR_FLOAT(name, id, bytes)
#include "kernels/types/tensor_types.def"
    default:
        break;
    }
}

/* Processes the rows in chunks; all groups run over each chunk. */
static void linear_coded(const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    const size_t group_bytes = packed_group_bytes(weight->type, weight->cols);
    const size_t row_bytes = packed_input_bytes(1, weight->cols);
    const uint32_t tiles = packed_tiles(call->rows, AVX2_TILE);
    uint32_t most = (uint32_t)(LINEAR_CHUNK_BYTES / (row_bytes * AVX2_TILE));
    most = most < 1 ? 1 : most < LINEAR_ROWS / AVX2_TILE ? most : LINEAR_ROWS / AVX2_TILE;
    for (uint32_t tile = 0, count; tile < tiles; tile += count) {
        uint32_t row[LINEAR_TILES];
        count = tiles - tile < most ? tiles - tile : most;
        for (uint32_t i = 0; i <= count; i++)
            row[i] = packed_tile_begin(call->rows, tiles, tile + i);
        struct linear_block block = {
            .blocks = weight->cols / TABLE_BLOCK,
            .input = (const char *)call->input + row[0] * row_bytes,
            .row = row,
            .tiles = count,
            .y_stride = call->y_stride,
            .accumulate = call->accumulate,
        };
        for (uint32_t g = call->group_begin; g < call->group_end; g++) {
            block.weights = (const unsigned char *)weight->packed + g * group_bytes;
            block.y =
                call->y + row[0] * call->y_stride + (size_t)(g - call->group_begin) * TABLE_GROUP;
            block.outputs = weight->rows - g * TABLE_GROUP;
            block.bias = packed_bias(call, g);
            linear_block_run(weight->type->id, &block);
        }
    }
}
