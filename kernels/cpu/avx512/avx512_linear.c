#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/avx512/avx512_unit.h"
#include "kernels/cpu/avx512/avx512_vectors.h"

/* Returns zero in a register that is made anew where many rows leave no register free for it. */
static inline __attribute__((always_inline)) __m512i linear_zero(const int n)
{
    __m512i zero = _mm512_setzero_si512();
    if (n > AVX512_TILE / 2)
        __asm__ volatile("vpxord %0, %0, %0" : "=v"(zero));
    return zero;
}

/* Rows of a tile that are computed interleaved, so that more chains of dot products overlap than
 * the processor finds by itself. With few rows, the next units overlap. */
enum { LINEAR_TURNS = 4 };

/* Adds one unit to rows [from, from + turns) of a tile of n; the unit's inputs are at `input`. */
static inline __attribute__((always_inline)) void
linear_rows(const struct types_form form, const __m512i w[8], const struct linear_factors *unit,
            const char *input, const int n, const int from, const int turns, __m512 *y)
{
    const int8_t *q = (const int8_t *)input + from * TABLE_BLOCK;
    const char *factors = input + n * TABLE_BLOCK + 4 * from;
    const bool is_split = types_is_split(form);
    __m512i sums[LINEAR_TURNS][2];
#pragma GCC unroll 4
    for (int t = 0; t < turns; t++) {
        sums[t][0] = form.has_m ? linear_zero(n) : linear_start(form, factors + 8 * n + 4 * t);
        if (!is_split)
            continue;
        sums[t][1] = linear_start(form, factors + 12 * n + 4 * t);
        sums[t][0] = _mm512_sub_epi32(sums[t][0], sums[t][1]);
    }
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++) {
        const int half = is_split && v >= 4;
#pragma GCC unroll 4
        for (int t = 0; t < turns; t++)
            sums[t][half] = avx512_dot(sums[t][half], w[v], q + t * TABLE_BLOCK + 4 * v);
    }
#pragma GCC unroll 4
    for (int t = 0; t < turns; t++) {
        __m512 scale = linear_factor(factors + 4 * t);
        y[t] =
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t][0]), _mm512_mul_ps(unit->d[0], scale), y[t]);
        if (is_split)
            y[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[t][1]), _mm512_mul_ps(unit->d[1], scale),
                                   y[t]);
        if (form.has_m)
            y[t] = _mm512_fmadd_ps(unit->m, linear_factor(factors + 4 * n + 4 * t), y[t]);
    }
}

/* Prefetch distance: the processor's own prefetching ends at each page of 4 KiB. */
enum { LINEAR_AHEAD_BYTES = 4096 };

/* `form` and `n` are constants in every call, so that loops over rows unroll and accumulators stay
 * in registers. */
static inline __attribute__((always_inline)) void
linear_block_run(const struct types_form form, const int n, const struct linear_block *block)
{
    const int turns = n >= LINEAR_TURNS ? LINEAR_TURNS : 1;
    const unsigned char *unit = block->weights;
    const char *input = block->input;
    struct linear_factors super = {0};
    __m512 y[AVX512_TILE];
#pragma GCC unroll 16
    for (int t = 0; t < n; t++) {
        y[t] = _mm512_setzero_ps();
        if (block->accumulate) /* read at the end */
            __builtin_prefetch(block->y + (size_t)t * block->y_stride, 1);
    }
    for (uint32_t b = 0; b < block->blocks; b++) {
        __m512i w[8];
        struct linear_factors factors;
        if (types_has_scales(form) && b % PACKED_UNITS == 0) {
            super = linear_halves(form, unit);
            unit += packed_factor_bytes(form);
        }
        linear_load(form, unit, w);
#pragma GCC unroll 9
        for (size_t line = 0; line < packed_unit_bytes(form); line += 64)
            _mm_prefetch((const char *)unit + LINEAR_AHEAD_BYTES + line, _MM_HINT_T0);
        const unsigned char *at = unit + packed_code_bytes(form);
        factors = types_has_scales(form) ? linear_scaled(form, super, at) : linear_halves(form, at);
#pragma GCC unroll 16
        for (int t = 0; t < n; t += turns)
            linear_rows(form, w, &factors, input, n, t, n - t < turns ? n - t : turns, y + t);
        unit += packed_unit_bytes(form);
        input += n * PACKED_INPUT_BYTES;
    }
    linear_store(block, n, y);
}

#define LINEAR_SIZES(X)                                                                            \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
#define LINEAR_LEAF(name) k_linear_##name##_16xn_avx512
#include "kernels/cpu/avx512/avx512_leaves.h"

/* Inputs of this many bytes stay in the second-level cache (1 or 2 MiB) while the groups are read.
 */
enum { LINEAR_CHUNK_BYTES = 256 * 1024 };

void k_linear_avx512(const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    linear_run *const run = linear_of(weight->type->id);
    if (run == NULL) {
        k_linear_float_avx512(call);
        return;
    }
    const uint32_t blocks = weight->cols / TABLE_BLOCK;
    const size_t group_bytes = packed_group_bytes(weight->type, weight->cols);
    const size_t row_bytes = (size_t)blocks * PACKED_INPUT_BYTES;
    const uint32_t tiles = packed_tiles(call->rows, AVX512_TILE);
    uint32_t chunk = (uint32_t)(LINEAR_CHUNK_BYTES / (row_bytes * AVX512_TILE));
    if (chunk < 1)
        chunk = 1;
    for (uint32_t from = 0; from < tiles; from += chunk) {
        uint32_t to = tiles - from < chunk ? tiles : from + chunk;
        for (uint32_t g = call->group_begin; g < call->group_end; g++)
            for (uint32_t tile = from; tile < to; tile++) {
                uint32_t row = packed_tile_begin(call->rows, tiles, tile);
                uint32_t n = packed_tile_begin(call->rows, tiles, tile + 1) - row;
                struct linear_block block = {
                    .weights = (const unsigned char *)weight->packed + g * group_bytes,
                    .input = (const char *)call->input + row * row_bytes,
                    .blocks = blocks,
                    .y = call->y + row * call->y_stride +
                         (size_t)(g - call->group_begin) * TABLE_GROUP,
                    .y_stride = call->y_stride,
                    .lanes = avx512_mask(weight->rows - g * TABLE_GROUP),
                    .bias = packed_bias(call, g),
                    .accumulate = call->accumulate,
                };
                run(n, &block);
            }
    }
}
