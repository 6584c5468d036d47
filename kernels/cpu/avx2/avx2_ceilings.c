#include "kernels/cpu/avx2/avx2.h"

#include <immintrin.h>

/* Independent accumulators, more than latency × ports; they fit the registers with operands. */
enum { CEILINGS_CHAINS = 12 };

/* A product of bytes and one sum of 16 bits: no linear layer does with less. */
uint64_t k_spin_int8_avx2(uint64_t rounds, uint64_t *sink)
{
    __m256i sums[CEILINGS_CHAINS];
    const __m256i w = _mm256_set1_epi8(3);
    const __m256i q = _mm256_set1_epi8((char)*sink);
#pragma GCC unroll 12
    for (int i = 0; i < CEILINGS_CHAINS; i++)
        sums[i] = _mm256_set1_epi32(i);
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CEILINGS_CHAINS; i++) {
            __m256i pairs;
            __asm__ volatile("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
                             : "+x"(sums[i]), "=&x"(pairs)
                             : "x"(w), "x"(q));
        }
    }
#pragma GCC unroll 12
    for (int i = 1; i < CEILINGS_CHAINS; i++)
        sums[0] = _mm256_xor_si256(sums[0], sums[i]);
    *sink += (uint64_t)(uint32_t)_mm256_extract_epi32(sums[0], 0) + 1;
    return rounds * CEILINGS_CHAINS * 32 * 2;
}

uint64_t k_spin_f32_avx2(uint64_t rounds, uint64_t *sink)
{
    __m256 sums[CEILINGS_CHAINS];
    const __m256 w = _mm256_set1_ps(0.5f);
    const __m256 x = _mm256_set1_ps((float)(*sink & 15));
#pragma GCC unroll 12
    for (int i = 0; i < CEILINGS_CHAINS; i++)
        sums[i] = _mm256_set1_ps((float)i);
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CEILINGS_CHAINS; i++)
            __asm__ volatile("vfmadd213ps %2, %1, %0" : "+x"(sums[i]) : "x"(w), "x"(x));
    }
#pragma GCC unroll 12
    for (int i = 1; i < CEILINGS_CHAINS; i++)
        sums[0] = _mm256_add_ps(sums[0], sums[i]);
    *sink += (uint64_t)_mm256_cvtss_f32(sums[0]) + 1;
    return rounds * CEILINGS_CHAINS * 8 * 2;
}

void k_read_avx2(const void *bytes, size_t count, uint64_t *sink)
{
    const char *at = bytes;
    __m256i sums[4];
    uint64_t lanes[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        sums[i] = _mm256_setzero_si256();
    size_t n = 0;
    for (; n + 128 <= count; n += 128) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const __m256i *line = (const __m256i *)(const void *)(at + n + 32 * i);
            sums[i] = _mm256_xor_si256(sums[i], _mm256_loadu_si256(line));
        }
    }
    for (; n + 32 <= count; n += 32) {
        const __m256i *line = (const __m256i *)(const void *)(at + n);
        sums[0] = _mm256_xor_si256(sums[0], _mm256_loadu_si256(line));
    }
    sums[0] =
        _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
    _mm256_storeu_si256((__m256i *)(void *)lanes, sums[0]);
    for (int i = 0; i < 4; i++)
        *sink += lanes[i];
}
