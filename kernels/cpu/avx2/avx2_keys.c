#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/avx2/avx2.h"
#include "kernels/cpu/kv_tile.h"

/* Unpacks the keys of one channel, whose codes are bytes. */
static inline void keys_unpack_channel(__m128i codes, uint16_t step, uint16_t least, uint16_t *open)
{
    const __m256 steps = _mm256_set1_ps(_cvtsh_ss(step));
    const __m256 leasts = _mm256_set1_ps(_cvtsh_ss(least));
    const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(codes));
    const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8)));
    _mm_storeu_si128((__m128i *)(void *)open, _mm256_cvtps_ph(_mm256_fmadd_ps(steps, low, leasts),
                                                              _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(
        (__m128i *)(void *)(open + 8),
        _mm256_cvtps_ph(_mm256_fmadd_ps(steps, high, leasts), _MM_FROUND_TO_NEAREST_INT));
}

void k_keys_unpack_avx2(const void *group, uint32_t n, uint16_t *open)
{
    const uint32_t width = kv_tile_round(n);
    const char *from = group;
    const char *steps = from + (size_t)width / 2 * KV_TILE_KEYS;
    const __m128i low4 = _mm_set1_epi8(15);
    for (uint32_t d = 0; d < n; d += 2, from += KV_TILE_KEYS, open += 2 * (size_t)KV_TILE_KEYS) {
        const __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)from);
        uint16_t step[2];
        uint16_t least[2];
        /* the tile has an even number of both */
        memcpy(step, steps + d * sizeof *step, sizeof step);
        memcpy(least, steps + (width + d) * sizeof *least, sizeof least);
        keys_unpack_channel(_mm_and_si128(codes, low4), step[0], least[0], open);
        if (d + 1 < n)
            keys_unpack_channel(_mm_and_si128(_mm_srli_epi16(codes, 4), low4), step[1], least[1],
                                open + KV_TILE_KEYS);
    }
}
