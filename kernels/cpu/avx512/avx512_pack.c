#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/avx512/avx512_vectors.h"

uint32_t k_input_units_avx512(uint32_t rows, uint32_t cols)
{
    return packed_tiles(rows, AVX512_TILE) * (cols / TABLE_BLOCK);
}

/* q summed in fours: lanes 0 … 3 of the first 16, 4 … 7 of the last 16. */
static inline void pack_sums(__m256i q, int32_t sums[2])
{
    __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4e));
    fours = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0xb1));
    sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(fours, 1));
    sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(fours)) + sums[1];
}

static inline float pack_quantise(const float *x, int8_t *out, int32_t sums[2])
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
    _mm256_storeu_si256((__m256i *)(void *)out, q);
    pack_sums(q, sums);
    return scale;
}

void k_input_pack_avx512(const float *x, uint32_t rows, uint32_t cols, uint32_t begin, uint32_t end,
                         void *packed)
{
    packed_input(pack_quantise, AVX512_TILE, x, rows, cols, begin, end, packed);
}
