#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/avx512/avx512_vectors.h"

/* What one register block computes: 16 outputs × n rows over all blocks. */
struct linear_block {
    const unsigned char *weights; /* the group's units */
    const char *input;            /* the tile's units */
    uint32_t blocks;
    float *y;
    size_t y_stride; /* floats from row to row */
    __mmask16 lanes;
    bool accumulate;
};

/* Eight vectors of unsigned bytes, [16 outputs][4 inputs] each. */
static inline __attribute__((always_inline)) void
linear_load(uint32_t type_id, const unsigned char *unit, __m512i w[8])
{
    const __m512i low = _mm512_set1_epi8(15);
    if (type_id == TENSOR_TYPE_q8_0) {
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++)
            w[v] = _mm512_loadu_si512(unit + 64 * v);
        return;
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        __m512i nibbles = _mm512_loadu_si512(unit + 64 * v);
        w[v] = _mm512_and_si512(nibbles, low);
        w[4 + v] = _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), low);
    }
}

/* Where the exact integer sum of a row starts: what w's offset adds comes off again. */
static inline __attribute__((always_inline)) __m512i linear_start(uint32_t type_id,
                                                                  const char *times_minus_8)
{
    if (type_id == TENSOR_TYPE_q4_1)
        return _mm512_setzero_si512();
    int32_t value;
    __builtin_memcpy(&value, times_minus_8, sizeof value);
    __m512i start = _mm512_set1_epi32(value);
    return type_id == TENSOR_TYPE_q8_0 ? _mm512_slli_epi32(start, 4) : start;
}

static inline __attribute__((always_inline)) __m512 linear_factor(const char *at)
{
    float value;
    __builtin_memcpy(&value, at, sizeof value);
    return _mm512_set1_ps(value);
}

/* The processor's own prefetching ends at each page of 4 KiB. */
enum { LINEAR_AHEAD_BYTES = 4096 };

/* `type_id` and `n` are constants wherever this is called, so loops over rows are straight code and
 * accumulators stay in registers. */
static inline __attribute__((always_inline)) void
linear_block_run(const uint32_t type_id, const int n, const struct linear_block *block)
{
    const size_t code_bytes = type_id == TENSOR_TYPE_q8_0 ? 512 : 256;
    const unsigned char *unit = block->weights;
    const char *input = block->input;
    __m512 y[AVX512_TILE];
#pragma GCC unroll 16
    for (int t = 0; t < n; t++)
        y[t] = _mm512_setzero_ps();
    for (uint32_t b = 0; b < block->blocks; b++) {
        __m512i w[8];
        const char *factors = input + n * TABLE_BLOCK;
        linear_load(type_id, unit, w);
#pragma GCC unroll 9
        for (size_t line = 0; line < avx512_unit_bytes(type_id); line += 64)
            _mm_prefetch((const char *)unit + LINEAR_AHEAD_BYTES + line, _MM_HINT_T0);
        const __m256i *halves = (const __m256i *)(const void *)(unit + code_bytes);
        __m512 d = _mm512_cvtph_ps(_mm256_loadu_si256(halves));
        __m512 m = _mm512_setzero_ps();
        if (type_id == TENSOR_TYPE_q4_1)
            m = _mm512_cvtph_ps(_mm256_loadu_si256(halves + 1));
#pragma GCC unroll 16
        for (int t = 0; t < n; t++) {
            const int8_t *q = (const int8_t *)input + t * TABLE_BLOCK;
            __m512i isum = linear_start(type_id, factors + 4 * (2 * n + t));
#pragma GCC unroll 8
            for (int v = 0; v < 8; v++)
                isum = avx512_dot(isum, w[v], q + 4 * v);
            __m512 scale = _mm512_mul_ps(d, linear_factor(factors + 4 * t));
            y[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(isum), scale, y[t]);
            if (type_id == TENSOR_TYPE_q4_1)
                y[t] = _mm512_fmadd_ps(m, linear_factor(factors + 4 * (n + t)), y[t]);
        }
        unit += avx512_unit_bytes(type_id);
        input += n * AVX512_INPUT_BYTES;
    }
#pragma GCC unroll 16
    for (int t = 0; t < n; t++) {
        float *out = block->y + (size_t)t * block->y_stride;
        if (block->accumulate)
            y[t] = _mm512_add_ps(_mm512_maskz_loadu_ps(block->lanes, out), y[t]);
        _mm512_mask_storeu_ps(out, block->lanes, y[t]);
    }
}

#define LINEAR_SIZES(X)                                                                            \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

static inline __attribute__((always_inline)) void
linear_block_sized(const uint32_t type_id, uint32_t n, const struct linear_block *block)
{
    switch (n) {
#define LINEAR_CASE(size)                                                                          \
    case size:                                                                                     \
        linear_block_run(type_id, size, block);                                                    \
        break;
        LINEAR_SIZES(LINEAR_CASE)
#undef LINEAR_CASE
    default:
        break;
    }
}

static void k_linear_q4_0_16xn_avx512(uint32_t n, const struct linear_block *block)
{
    linear_block_sized(TENSOR_TYPE_q4_0, n, block);
}

static void k_linear_q4_1_16xn_avx512(uint32_t n, const struct linear_block *block)
{
    linear_block_sized(TENSOR_TYPE_q4_1, n, block);
}

static void k_linear_q8_0_16xn_avx512(uint32_t n, const struct linear_block *block)
{
    linear_block_sized(TENSOR_TYPE_q8_0, n, block);
}

/* Inputs of this many bytes stay in the second-level cache (1 or 2 MiB) while the groups pass. */
enum { LINEAR_CHUNK_BYTES = 256 * 1024 };

void k_linear_avx512(const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    if (weight->type->block_elements != TABLE_BLOCK) {
        k_linear_float_avx512(call);
        return;
    }
    void (*const run)(uint32_t n, const struct linear_block *block) =
        weight->type->id == TENSOR_TYPE_q4_0   ? k_linear_q4_0_16xn_avx512
        : weight->type->id == TENSOR_TYPE_q4_1 ? k_linear_q4_1_16xn_avx512
                                               : k_linear_q8_0_16xn_avx512;
    const uint32_t blocks = weight->cols / TABLE_BLOCK;
    const size_t group_bytes = avx512_unit_bytes(weight->type->id) * blocks;
    const size_t row_bytes = (size_t)blocks * AVX512_INPUT_BYTES;
    const uint32_t tiles = avx512_tiles(call->rows);
    uint32_t chunk = (uint32_t)(LINEAR_CHUNK_BYTES / (row_bytes * AVX512_TILE));
    if (chunk < 1)
        chunk = 1;
    for (uint32_t from = 0; from < tiles; from += chunk) {
        uint32_t to = tiles - from < chunk ? tiles : from + chunk;
        for (uint32_t g = call->group_begin; g < call->group_end; g++)
            for (uint32_t tile = from; tile < to; tile++) {
                uint32_t row = avx512_tile_begin(call->rows, tiles, tile);
                uint32_t n = avx512_tile_begin(call->rows, tiles, tile + 1) - row;
                struct linear_block block = {
                    .weights = (const unsigned char *)weight->packed + g * group_bytes,
                    .input = (const char *)call->input + row * row_bytes,
                    .blocks = blocks,
                    .y = call->y + (size_t)row * weight->rows + (size_t)g * TABLE_GROUP,
                    .y_stride = weight->rows,
                    .lanes = avx512_mask(weight->rows - g * TABLE_GROUP),
                    .accumulate = call->accumulate,
                };
                run(n, &block);
            }
    }
}
