#include "kernels/cpu/avx512/avx512.h"

#include <string.h>

#include "kernels/cpu/avx512/avx512_vectors.h"
#include "kernels/cpu/ref_int8/ref_int8.h"
#include "kernels/cpu/types/types.h"

static uint32_t pack_units(const struct tensor_type_info *type, uint32_t cols)
{
    return cols / type->block_elements;
}

size_t k_weight_bytes_avx512(const struct tensor_type_info *type, uint32_t rows, uint32_t cols)
{
    return avx512_unit_bytes(type->id) * pack_units(type, cols) * table_groups(rows);
}

/* One block (or float) of one output into its lane. */
static void weight_pack_lane(uint32_t type_id, const unsigned char *block, uint32_t lane,
                             unsigned char *unit)
{
    switch (type_id) {
    case TENSOR_TYPE_f32:
        memcpy(unit + 4 * lane, block, 4);
        break;
    case TENSOR_TYPE_f16:
        memcpy(unit + 2 * lane, block, 2);
        break;
    case TENSOR_TYPE_q8_0:
        for (uint32_t v = 0; v < 8; v++)
            for (uint32_t i = 0; i < 4; i++)
                unit[64 * v + 4 * lane + i] = block[2 + 4 * v + i] ^ 0x80;
        memcpy(unit + 512 + 2 * lane, block, 2);
        break;
    default: /* q4_0 { d, n }, q4_1 { d, m, n } */
        memcpy(unit + 256 + 2 * lane, block, 2);
        block += 2;
        if (type_id == TENSOR_TYPE_q4_1) {
            memcpy(unit + 288 + 2 * lane, block, 2);
            block += 2;
        }
        for (uint32_t v = 0; v < 4; v++)
            memcpy(unit + 64 * v + 4 * lane, block + 4 * v, 4);
        break;
    }
}

void k_weight_pack_avx512(const struct tensor *tensor, uint32_t group_begin, uint32_t group_end,
                          void *packed)
{
    const struct tensor_type_info *type = tensor->type;
    const uint32_t units = pack_units(type, (uint32_t)tensor->dims[0]);
    const size_t unit_bytes = avx512_unit_bytes(type->id);
    const unsigned char *data = tensor->data;
    for (uint32_t g = group_begin; g < group_end; g++) {
        unsigned char *group = (unsigned char *)packed + g * units * unit_bytes;
        memset(group, 0, units * unit_bytes); /* lanes beyond the last output */
        for (uint32_t lane = 0; lane < TABLE_GROUP; lane++) {
            uint64_t row = (uint64_t)g * TABLE_GROUP + lane;
            if (row >= tensor->dims[1])
                break;
            for (uint32_t u = 0; u < units; u++)
                weight_pack_lane(type->id, data + (row * units + u) * type->block_bytes, lane,
                                 group + u * unit_bytes);
        }
    }
}

/* The block of one lane, back as in the file. */
static void weight_row_block(uint32_t type_id, const unsigned char *unit, uint32_t lane,
                             unsigned char *block)
{
    switch (type_id) {
    case TENSOR_TYPE_f32:
        memcpy(block, unit + 4 * lane, 4);
        break;
    case TENSOR_TYPE_f16:
        memcpy(block, unit + 2 * lane, 2);
        break;
    case TENSOR_TYPE_q8_0:
        memcpy(block, unit + 512 + 2 * lane, 2);
        for (uint32_t k = 0; k < TABLE_BLOCK; k++)
            block[2 + k] = unit[64 * (k / 4) + 4 * lane + k % 4] ^ 0x80;
        break;
    default:
        memcpy(block, unit + 256 + 2 * lane, 2);
        block += 2;
        if (type_id == TENSOR_TYPE_q4_1) {
            memcpy(block, unit + 288 + 2 * lane, 2);
            block += 2;
        }
        for (uint32_t v = 0; v < 4; v++)
            memcpy(block + 4 * v, unit + 64 * v + 4 * lane, 4);
        break;
    }
}

void k_weight_row_avx512(const struct weight *weight, uint32_t row, float *out)
{
    const struct tensor_type_info *type = weight->type;
    const uint32_t units = pack_units(type, weight->cols);
    const size_t unit_bytes = avx512_unit_bytes(type->id);
    const unsigned char *unit =
        (const unsigned char *)weight->packed + row / TABLE_GROUP * units * unit_bytes;
    unsigned char block[2 + TABLE_BLOCK];
    for (uint32_t u = 0; u < units; u++, unit += unit_bytes) {
        weight_row_block(type->id, unit, row % TABLE_GROUP, block);
        type->to_f32(block, out + (size_t)u * type->block_elements, type->block_elements);
    }
}

size_t k_input_bytes_avx512(uint32_t rows, uint32_t cols)
{
    return (size_t)rows * (cols / TABLE_BLOCK) * AVX512_INPUT_BYTES;
}

/* A unit is one block of one tile, so that threads write separate stretches of memory. */
uint32_t k_input_units_avx512(uint32_t rows, uint32_t cols)
{
    return avx512_tiles(rows) * (cols / TABLE_BLOCK);
}

/* k_quantise_block_ref_int8 for row `lane` of a tile of n. */
static inline void input_pack_row(const float *x, char *unit, uint32_t n, uint32_t lane)
{
    __m512 low = _mm512_loadu_ps(x);
    __m512 high = _mm512_loadu_ps(x + 16);
    __m512 max = _mm512_max_ps(_mm512_abs_ps(low), _mm512_setzero_ps());
    max = _mm512_max_ps(_mm512_abs_ps(high), max);
    float greatest = _mm512_reduce_max_ps(max);
    float scale = greatest / 127.0f;
    __m256i q = _mm256_setzero_si256();
    if (greatest >= 1e-30f && greatest < INFINITY) {
        const __m512 round = _mm512_set1_ps(FIXED_MATH_ROUND);
        __m512 inverse = _mm512_set1_ps(127.0f / greatest);
        low = _mm512_add_ps(_mm512_mul_ps(low, inverse), round);
        high = _mm512_add_ps(_mm512_mul_ps(high, inverse), round);
        q = _mm256_set_m128i(_mm512_cvtepi32_epi8(_mm512_castps_si512(high)),
                             _mm512_cvtepi32_epi8(_mm512_castps_si512(low)));
    } else {
        scale = 0;
    }
    __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4e));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xb1));
    int32_t sum = _mm_cvtsi128_si32(half);
    float scaled_sum = scale * (float)sum;
    int32_t start = -8 * sum;
    _mm256_storeu_si256((__m256i *)(void *)(unit + (size_t)lane * TABLE_BLOCK), q);
    char *factors = unit + (size_t)n * TABLE_BLOCK;
    memcpy(factors + 4 * lane, &scale, 4);
    memcpy(factors + 4 * (n + lane), &scaled_sum, 4);
    memcpy(factors + 4 * (2 * n + lane), &start, 4);
}

void k_input_pack_avx512(const float *x, uint32_t rows, uint32_t cols, uint32_t begin, uint32_t end,
                         void *packed)
{
    const uint32_t blocks = cols / TABLE_BLOCK;
    const uint32_t tiles = avx512_tiles(rows);
    for (uint32_t u = begin; u < end; u++) {
        uint32_t first = avx512_tile_begin(rows, tiles, u / blocks);
        uint32_t n = avx512_tile_begin(rows, tiles, u / blocks + 1) - first;
        uint32_t b = u % blocks;
        char *unit = (char *)packed + (size_t)first * blocks * AVX512_INPUT_BYTES +
                     (size_t)b * n * AVX512_INPUT_BYTES;
        for (uint32_t lane = 0; lane < n; lane++)
            input_pack_row(x + (size_t)(first + lane) * cols + (size_t)b * TABLE_BLOCK, unit, n,
                           lane);
    }
}
