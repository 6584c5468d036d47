#include "kernels/cpu/amx/amx.h"

#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/avx512_unit.h"
#include "kernels/cpu/avx512/avx512_vectors.h"

/* Tile numbers, as literals because the instructions need text. */
#define TILE_SUMS         0
#define TILE_INPUTS       1
#define TILE_WEIGHTS      2
#define TILE_HALF_SUMS    3
#define TILE_HALF_INPUTS  4
#define TILE_HALF_WEIGHTS 5

/* The sums of a tile over all 32 inputs, or over the first and the last 16. */
struct linear_sums {
    _Alignas(64) int32_t of[2][AVX512_TILE][16];
};

static void linear_configure(uint32_t n)
{
    struct amx_config config = {0};
    amx_config_product(&config, TILE_SUMS, TILE_INPUTS, TILE_WEIGHTS, n, 8);
    amx_config_product(&config, TILE_HALF_SUMS, TILE_HALF_INPUTS, TILE_HALF_WEIGHTS, n, 4);
    AMX_CONFIGURE(&config);
}

/* Computes the products of one unit for all rows of a tile, exact in 32 bits. Scales differ between
 * units (or halves), so tiles are no deeper. */
static inline __attribute__((always_inline)) void linear_products(const struct types_form form,
                                                                  const unsigned char *unit,
                                                                  const char *input,
                                                                  struct linear_sums *sums)
{
    _Alignas(64) unsigned char codes[8][64];
    __m512i w[8];
    linear_load(form, unit, w);
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++)
        _mm512_store_si512(codes[v], w[v]);
    if (!types_is_split(form)) {
        AMX_ZERO(TILE_SUMS);
        AMX_LOAD(TILE_INPUTS, input, TABLE_BLOCK);
        AMX_LOAD(TILE_WEIGHTS, codes, 64);
        AMX_DOT(TILE_SUMS, TILE_INPUTS, TILE_WEIGHTS);
        AMX_STORE(TILE_SUMS, sums->of[0], 64);
        return;
    }
    for (int half = 0; half < 2; half++) {
        AMX_ZERO(TILE_HALF_SUMS);
        AMX_LOAD(TILE_HALF_INPUTS, input + 16 * half, TABLE_BLOCK);
        AMX_LOAD(TILE_HALF_WEIGHTS, codes[4 * half], 64);
        AMX_DOT(TILE_HALF_SUMS, TILE_HALF_INPUTS, TILE_HALF_WEIGHTS);
        AMX_STORE(TILE_HALF_SUMS, sums->of[half], 64);
    }
}

/* Adds one unit to one row from its sums. The row's factors are at `factors`, `n` floats apart. */
static inline __attribute__((always_inline)) __m512
linear_row(const struct types_form form, const struct linear_factors *unit,
           const struct linear_sums *sums, const int t, const char *factors, const int n, __m512 y)
{
    const bool is_split = types_is_split(form);
    __m512 scale = linear_factor(factors);
    __m512i isum = _mm512_load_si512(sums->of[0][t]);
    if (!form.has_m)
        isum = _mm512_add_epi32(isum, linear_start(form, factors + 8 * n));
    if (is_split)
        isum = _mm512_sub_epi32(isum, linear_start(form, factors + 12 * n));
    y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(unit->d[0], scale), y);
    if (is_split) {
        isum = _mm512_add_epi32(_mm512_load_si512(sums->of[1][t]),
                                linear_start(form, factors + 12 * n));
        y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(unit->d[1], scale), y);
    }
    if (form.has_m)
        y = _mm512_fmadd_ps(unit->m, linear_factor(factors + 4 * n), y);
    return y;
}

/* `form` and `n` are constants in every call, so that sums of floats stay in registers. */
static inline __attribute__((always_inline)) void
linear_block_run(const struct types_form form, const int n, const struct linear_block *block)
{
    const unsigned char *unit = block->weights;
    const char *input = block->input;
    struct linear_factors super = {0};
    /* Used alternately: a product may begin while the last one is still being added. */
    struct linear_sums sums[2];
    __m512 y[AVX512_TILE];
#pragma GCC unroll 16
    for (int t = 0; t < n; t++)
        y[t] = _mm512_setzero_ps();
    for (uint32_t b = 0; b < block->blocks; b++) {
        struct linear_factors factors;
        if (types_has_scales(form) && b % PACKED_UNITS == 0) {
            super = linear_halves(form, unit);
            unit += packed_factor_bytes(form);
        }
        linear_products(form, unit, input, &sums[b % 2]);
        const unsigned char *at = unit + packed_code_bytes(form);
        factors = types_has_scales(form) ? linear_scaled(form, super, at) : linear_halves(form, at);
#pragma GCC unroll 16
        for (int t = 0; t < n; t++)
            y[t] = linear_row(form, &factors, &sums[b % 2], t, input + n * TABLE_BLOCK + 4 * t, n,
                              y[t]);
        unit += packed_unit_bytes(form);
        input += n * PACKED_INPUT_BYTES;
    }
    linear_store(block, n, y);
}

/* Rows are spread evenly over tiles: with AMX_ROWS_MIN rows or more, each tile has at least eight.
 */
#define LINEAR_SIZES(X)   X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
#define LINEAR_LEAF(name) k_linear_##name##_16xn_amx
#include "kernels/cpu/avx512/avx512_leaves.h"

/* Runs row tiles [from, to) over a group whose weights are in the second-level cache. */
static void linear_group(const struct table_linear *call, linear_run *run, uint32_t group,
                         uint32_t from, uint32_t to)
{
    const struct weight *weight = call->weight;
    const size_t row_bytes = packed_input_bytes(1, weight->cols);
    const uint32_t tiles = packed_tiles(call->rows, AVX512_TILE);
    for (uint32_t tile = from, shape = 0; tile < to; tile++) {
        uint32_t row = packed_tile_begin(call->rows, tiles, tile);
        uint32_t n = packed_tile_begin(call->rows, tiles, tile + 1) - row;
        struct linear_block block = {
            .weights = (const unsigned char *)weight->packed +
                       group * packed_group_bytes(weight->type, weight->cols),
            .input = (const char *)call->input + row * row_bytes,
            .blocks = weight->cols / TABLE_BLOCK,
            .y = call->y + row * call->y_stride + (size_t)(group - call->group_begin) * TABLE_GROUP,
            .y_stride = call->y_stride,
            .lanes = avx512_mask(weight->rows - group * TABLE_GROUP),
            .bias = packed_bias(call, group),
            .accumulate = call->accumulate,
        };
        if (n != shape)
            linear_configure(n);
        shape = n;
        run(n, &block);
    }
}

/* Inputs of this many bytes stay in the second-level cache, which has 2 MiB on processors with AMX,
 * while the groups are read. */
enum { LINEAR_CHUNK_BYTES = 512 * 1024 };

void k_linear_amx(const struct table_linear *call)
{
    linear_run *const run = linear_of(call->weight->type->id);
    if (run == NULL || call->rows < AMX_ROWS_MIN) {
        k_linear_avx512(call);
        return;
    }
    const uint32_t tiles = packed_tiles(call->rows, AVX512_TILE);
    const size_t tile_bytes = packed_input_bytes(AVX512_TILE, call->weight->cols);
    const uint32_t fit = (uint32_t)(LINEAR_CHUNK_BYTES / tile_bytes);
    const uint32_t chunk = fit < 1 ? 1 : fit;
    for (uint32_t from = 0; from < tiles; from += chunk) {
        const uint32_t to = tiles - from < chunk ? tiles : from + chunk;
        for (uint32_t group = call->group_begin; group < call->group_end; group++)
            linear_group(call, run, group, from, to);
    }
    /* A thread without tiles in use is switched faster. */
    AMX_RELEASE();
}
