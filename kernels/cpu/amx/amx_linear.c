#include "kernels/cpu/amx/amx.h"

#include "kernels/cpu/amx/amx_tiles.h"
#include "kernels/cpu/avx512/avx512.h"
#include "kernels/cpu/avx512/avx512_unit.h"
#include "kernels/cpu/avx512/avx512_vectors.h"

/* Tile numbers, as literals because the instructions need text. Units use the two sets in turn, so
 * that the sums of one are stored while the product of the next is computed. */
#define TILE_SUMS_EVEN    0
#define TILE_INPUTS_EVEN  1
#define TILE_WEIGHTS_EVEN 2
#define TILE_SUMS_ODD     3
#define TILE_INPUTS_ODD   4
#define TILE_WEIGHTS_ODD  5

/* A unit of weights, unpacked once for all rows. */
struct amx_unit {
    /* d, then m; of a type whose halves have scales of their own the d of each */
    _Alignas(64) float factors[2][16];
    /* w as [4 inputs][16 outputs][4], minus the type's offset. Where halves have scales of their
     * own, four rows of zeros divide the halves: rows 0 to 7 are the first half and zeros, rows 4
     * to 11 are zeros and the last half. */
    int8_t codes[12][64];
};

_Static_assert(sizeof(struct amx_unit) <= TABLE_BLOCK * 8 * sizeof(float),
               "table_linear_scratch has room for a group");

/* All tiles of a call have `n` rows. A tile of fewer rows then computes sums of one more, from the
 * bytes behind its inputs, which nothing reads. */
static void linear_configure(uint32_t n)
{
    struct amx_config config = {0};
    amx_config_product(&config, TILE_SUMS_EVEN, TILE_INPUTS_EVEN, TILE_WEIGHTS_EVEN, n, 8);
    amx_config_product(&config, TILE_SUMS_ODD, TILE_INPUTS_ODD, TILE_WEIGHTS_ODD, n, 8);
    AMX_CONFIGURE(&config);
}

/* Prefetch distance: the processor's own prefetching ends at each page of 4 KiB. */
enum { LINEAR_AHEAD_BYTES = 4096 };

/* Unpacks one group. */
static inline __attribute__((always_inline)) void linear_group_unpack(const struct types_form form,
                                                                      const unsigned char *unit,
                                                                      uint32_t blocks,
                                                                      struct amx_unit *out)
{
    const bool is_split = types_is_split(form);
    const __m512i offset = _mm512_set1_epi8((char)types_offset(form));
    struct linear_factors super = {0};
    for (uint32_t b = 0; b < blocks; b++, out++) {
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
        _mm512_store_ps(out->factors[0], factors.d[0]);
        _mm512_store_ps(out->factors[1], form.has_m ? factors.m : factors.d[1]);
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++) {
            if (types_offset(form) > 0)
                w[v] = _mm512_sub_epi8(w[v], offset);
            _mm512_store_si512(out->codes[is_split && v >= 4 ? v + 4 : v], w[v]);
        }
#pragma GCC unroll 4
        for (int v = 4; is_split && v < 8; v++)
            _mm512_store_si512(out->codes[v], _mm512_setzero_si512());
        unit += packed_unit_bytes(form);
    }
}

#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    static void k_unpack_##name##_amx(const unsigned char *group, uint32_t blocks,                 \
                                      struct amx_unit *out)                                        \
    {                                                                                              \
        linear_group_unpack(types_form(id), group, blocks, out);                                   \
    }
#define TENSOR_FLOAT(name, id, bytes)
#include "kernels/types/tensor_types.def"

typedef void linear_unpack(const unsigned char *group, uint32_t blocks, struct amx_unit *out);

/* Returns NULL for floats. */
static linear_unpack *linear_unpack_of(uint32_t type_id)
{
    switch (type_id) {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    case id:                                                                                       \
        return k_unpack_##name##_amx;
#define TENSOR_FLOAT(name, id, bytes)
#include "kernels/types/tensor_types.def"
    default:
        return NULL;
    }
}

/* What the rows need to know of a type whose units are unpacked. */
struct linear_form {
    bool has_m;
    bool is_split;
};

/* The exact sums of products of one tile and one unit, or of one half of it. */
struct linear_sums {
    _Alignas(64) int32_t of[AVX512_TILE][16];
};

/* Products that are computed before their rows. Their sums, the inputs and the unpacked weights of
 * one turn stay in the first-level cache: with 18 the layers of SmolLM2 took half again as long. */
enum { LINEAR_AHEAD = 12 };

/* Begins product `index`. Scales differ between units (or halves), so tiles are no deeper. */
static inline __attribute__((always_inline)) void
linear_product_begin(uint32_t index, const char *input, const int8_t *codes)
{
    if (index % 2 == 0) {
        AMX_ZERO(TILE_SUMS_EVEN);
        AMX_LOAD(TILE_INPUTS_EVEN, input, TABLE_BLOCK);
        AMX_LOAD(TILE_WEIGHTS_EVEN, codes, 64);
        AMX_DOT(TILE_SUMS_EVEN, TILE_INPUTS_EVEN, TILE_WEIGHTS_EVEN);
    } else {
        AMX_ZERO(TILE_SUMS_ODD);
        AMX_LOAD(TILE_INPUTS_ODD, input, TABLE_BLOCK);
        AMX_LOAD(TILE_WEIGHTS_ODD, codes, 64);
        AMX_DOT(TILE_SUMS_ODD, TILE_INPUTS_ODD, TILE_WEIGHTS_ODD);
    }
}

static inline __attribute__((always_inline)) void linear_product_end(uint32_t index,
                                                                     struct linear_sums *sums)
{
    if (index % 2 == 0)
        AMX_STORE(TILE_SUMS_EVEN, sums[index].of, 64);
    else
        AMX_STORE(TILE_SUMS_ODD, sums[index].of, 64);
}

/* Computes the products of `count` units. */
static inline __attribute__((always_inline)) void
linear_products(const bool is_split, const int n, uint32_t count, const struct amx_unit *unit,
                const char *input, struct linear_sums *sums)
{
    const uint32_t each = is_split ? 2 : 1;
    for (uint32_t p = 0; p < count * each; p++) {
        const uint32_t i = p / each;
        linear_product_begin(p, input + (size_t)i * (uint32_t)n * PACKED_INPUT_BYTES,
                             unit[i].codes[p % each * 4]);
        if (p > 0)
            linear_product_end(p - 1, sums);
    }
    linear_product_end(count * each - 1, sums);
}

/* Adds one unit to the n rows of a tile from their sums. The rows' factors are at `factors`. */
static inline __attribute__((always_inline)) void
linear_rows(const struct linear_form form, const struct amx_unit *unit,
            const struct linear_sums *sums, const char *factors, const int n, __m512 *y)
{
    const __m512 first = _mm512_load_ps(unit->factors[0]);
    const __m512 second = _mm512_load_ps(unit->factors[1]);
#pragma GCC unroll 16
    for (int t = 0; t < n; t++) {
        const __m512 scale = linear_factor(factors + 4 * t);
        y[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums[0].of[t])),
                               _mm512_mul_ps(first, scale), y[t]);
        if (form.is_split)
            y[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums[1].of[t])),
                                   _mm512_mul_ps(second, scale), y[t]);
        if (form.has_m)
            y[t] = _mm512_fmadd_ps(second, linear_factor(factors + 4 * n + 4 * t), y[t]);
    }
}

/* Computes a register block, whose `weights` are unpacked, in turns of many products and then their
 * rows: for tens of cycles after a tile instruction the processor does float operations on 512 bits
 * at half their rate. `form` and `n` are constants in every call, so that sums of floats stay in
 * registers. */
static inline __attribute__((always_inline)) void
linear_block_run(const struct linear_form form, const int n, const struct linear_block *block)
{
    const uint32_t each = form.is_split ? 2 : 1;
    const struct amx_unit *unit = (const struct amx_unit *)(const void *)block->weights;
    const char *input = block->input;
    struct linear_sums sums[LINEAR_AHEAD];
    __m512 y[AVX512_TILE];
#pragma GCC unroll 16
    for (int t = 0; t < n; t++)
        y[t] = _mm512_setzero_ps();
    for (uint32_t left = block->blocks, count; left > 0; left -= count) {
        const uint32_t turns = (left * each + LINEAR_AHEAD - 1) / LINEAR_AHEAD;
        count = (left + turns - 1) / turns;
        linear_products(form.is_split, n, count, unit, input, sums);
        for (uint32_t i = 0; i < count; i++, unit++, input += n * PACKED_INPUT_BYTES)
            linear_rows(form, unit, &sums[i * each], input + n * TABLE_BLOCK, n, y);
    }
    linear_store(block, n, y);
}

typedef void linear_run(uint32_t n, const struct linear_block *block);

#define LINEAR_CASE(n)                                                                             \
    case n:                                                                                        \
        linear_block_run(form, n, block);                                                          \
        break;
/* Rows are spread evenly over tiles: with AMX_ROWS_MIN rows or more, each has at least twelve. */
#define LINEAR_CASES(X) X(12) X(13) X(14) X(15) X(16)
#define LINEAR_RUN(name, has_m, is_split)                                                          \
    static void k_linear_##name##_16xn_amx(uint32_t n, const struct linear_block *block)           \
    {                                                                                              \
        const struct linear_form form = {has_m, is_split};                                         \
        switch (n) {                                                                               \
            LINEAR_CASES(LINEAR_CASE)                                                              \
        default:                                                                                   \
            break;                                                                                 \
        }                                                                                          \
    }
LINEAR_RUN(plain, false, false)
LINEAR_RUN(with_m, true, false)
LINEAR_RUN(split, false, true)

/* Runs row tiles [from, to) over a group, whose units are unpacked. */
static void linear_group(const struct table_linear *call, uint32_t group, uint32_t from,
                         uint32_t to)
{
    const struct weight *weight = call->weight;
    const struct types_form form = types_form(weight->type->id);
    linear_run *const run = form.has_m             ? k_linear_with_m_16xn_amx
                            : types_is_split(form) ? k_linear_split_16xn_amx
                                                   : k_linear_plain_16xn_amx;
    const size_t row_bytes = packed_input_bytes(1, weight->cols);
    const uint32_t tiles = packed_tiles(call->rows, AVX512_TILE);
    for (uint32_t tile = from; tile < to; tile++) {
        uint32_t row = packed_tile_begin(call->rows, tiles, tile);
        uint32_t n = packed_tile_begin(call->rows, tiles, tile + 1) - row;
        struct linear_block block = {
            .weights = call->scratch,
            .input = (const char *)call->input + row * row_bytes,
            .blocks = weight->cols / TABLE_BLOCK,
            .y = call->y + row * call->y_stride + (size_t)(group - call->group_begin) * TABLE_GROUP,
            .y_stride = call->y_stride,
            .lanes = avx512_mask(weight->rows - group * TABLE_GROUP),
            .bias = packed_bias(call, group),
            .accumulate = call->accumulate,
        };
        run(n, &block);
    }
}

/* Inputs of this many bytes stay in the second-level cache, which has 2 MiB on processors with AMX,
 * while the groups are read. */
enum { LINEAR_CHUNK_BYTES = 512 * 1024 };

void k_linear_amx(const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    linear_unpack *const unpack = linear_unpack_of(weight->type->id);
    if (unpack == NULL || call->rows < AMX_ROWS_MIN) {
        k_linear_avx512(call);
        return;
    }
    const uint32_t tiles = packed_tiles(call->rows, AVX512_TILE);
    const size_t tile_bytes = packed_input_bytes(AVX512_TILE, weight->cols);
    const uint32_t fit = (uint32_t)(LINEAR_CHUNK_BYTES / tile_bytes);
    const uint32_t chunk = fit < 1 ? 1 : fit;
    linear_configure((call->rows + tiles - 1) / tiles);
    for (uint32_t from = 0; from < tiles; from += chunk) {
        const uint32_t to = tiles - from < chunk ? tiles : from + chunk;
        for (uint32_t group = call->group_begin; group < call->group_end; group++) {
            const size_t at = group * packed_group_bytes(weight->type, weight->cols);
            unpack((const unsigned char *)weight->packed + at, weight->cols / TABLE_BLOCK,
                   call->scratch);
            linear_group(call, group, from, to);
        }
    }
    /* A thread without tiles in use is switched faster. */
    AMX_RELEASE();
}
