#include "kernels/cpu/avx2/avx2.h"

#include "kernels/cpu/avx2/avx2_vectors.h"

uint32_t k_input_units_avx2(uint32_t rows, uint32_t cols)
{
    return packed_tiles(rows, AVX2_TILE) * (cols / TABLE_BLOCK);
}

/* Sums q by halves: sums[0] of all 32, sums[1] of the last 16. */
static inline void pack_sums(__m256i q, int32_t sums[2])
{
    __m256i fours =
        _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), q), _mm256_set1_epi16(1));
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xb1));
    sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(fours, 1));
    sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(fours)) + sums[1];
}

/* Returns the low bytes of 32 integers, in order. */
static inline __m256i pack_bytes(const __m256i v[4])
{
    const __m256i byte = _mm256_set1_epi32(255);
    __m256i low = _mm256_packus_epi32(_mm256_and_si256(v[0], byte), _mm256_and_si256(v[1], byte));
    __m256i high = _mm256_packus_epi32(_mm256_and_si256(v[2], byte), _mm256_and_si256(v[3], byte));
    /* Pack instructions work on 128-bit halves, which leaves the groups of four as 0 2 4 6, 1 3 5
     * 7. */
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high),
                                       _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

static inline float pack_quantise(const float *x, int8_t *out, int32_t sums[2])
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 v[4];
    __m256 max = _mm256_setzero_ps();
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        max = _mm256_max_ps(_mm256_andnot_ps(sign, v[i]), max);
    }
    float greatest = avx2_greatest(max);
    float scale = greatest / 127.0f;
    __m256i q = _mm256_setzero_si256();
    if (greatest >= 1e-30f && greatest < INFINITY) {
        const __m256 inverse = _mm256_set1_ps(127.0f / greatest);
        __m256i whole[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            whole[i] = _mm256_castps_si256(
                _mm256_add_ps(_mm256_mul_ps(v[i], inverse), _mm256_set1_ps(FIXED_MATH_ROUND)));
        q = pack_bytes(whole);
    } else {
        scale = 0;
    }
    _mm256_storeu_si256((__m256i *)(void *)out, q);
    pack_sums(q, sums);
    return scale;
}

static void pack_tile(const float *x, size_t step, uint32_t n, char *unit)
{
    packed_rows(pack_quantise, x, step, n, unit);
}

static inline struct packed_norm pack_rms_of(const struct table_input *input, const float *row)
{
    return (struct packed_norm){.scale = avx2_norm_scale(row, input->cols, input->epsilon)};
}

static inline void pack_rms(const struct table_input *input, struct packed_norm norm, size_t col,
                            const float *x, float *out)
{
    const __m256 by = _mm256_set1_ps(norm.scale);
    for (size_t i = 0; i < TABLE_BLOCK; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), by);
        _mm256_store_ps(out + i, _mm256_mul_ps(v, _mm256_loadu_ps(input->norm + col + i)));
    }
}

static inline struct packed_norm pack_layer_of(const struct table_input *input, const float *row)
{
    struct packed_norm norm;
    norm.scale = avx2_layer_scale(row, input->cols, input->epsilon, &norm.mean);
    return norm;
}

static inline void pack_layer(const struct table_input *input, struct packed_norm norm, size_t col,
                              const float *x, float *out)
{
    for (size_t i = 0; i < TABLE_BLOCK; i += 8) {
        const __m256 bias = input->norm_bias != NULL ? _mm256_loadu_ps(input->norm_bias + col + i)
                                                     : _mm256_setzero_ps();
        __m256 v = _mm256_sub_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(norm.mean));
        v = _mm256_mul_ps(v, _mm256_set1_ps(norm.scale));
        _mm256_store_ps(out + i, _mm256_fmadd_ps(v, _mm256_loadu_ps(input->norm + col + i), bias));
    }
}

void k_input_pack_avx2(const struct table_input *input, uint32_t begin, uint32_t end, void *packed)
{
    if (input->norm_kind == NORM_LAYER)
        packed_input(pack_tile, pack_layer_of, pack_layer, AVX2_TILE, input, begin, end, packed);
    else
        packed_input(pack_tile, pack_rms_of, pack_rms, AVX2_TILE, input, begin, end, packed);
}
