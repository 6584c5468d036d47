#include "kernels/cpu/avxvnni/avxvnni.h"

#include <immintrin.h>

/* Independent accumulators, more than latency × ports; they fit the registers with operands. */
enum { CEILINGS_CHAINS = 12 };

uint64_t k_spin_int8_avxvnni(uint64_t rounds, uint64_t *sink)
{
    __m256i sums[CEILINGS_CHAINS];
    const __m256i w = _mm256_set1_epi8(3);
    const __m256i q = _mm256_set1_epi8((char)*sink);
#pragma GCC unroll 12
    for (int i = 0; i < CEILINGS_CHAINS; i++)
        sums[i] = _mm256_set1_epi32(i);
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CEILINGS_CHAINS; i++)
            __asm__ volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums[i]) : "x"(w), "x"(q));
    }
#pragma GCC unroll 12
    for (int i = 1; i < CEILINGS_CHAINS; i++)
        sums[0] = _mm256_xor_si256(sums[0], sums[i]);
    *sink += (uint64_t)(uint32_t)_mm256_extract_epi32(sums[0], 0) + 1;
    return rounds * CEILINGS_CHAINS * 32 * 2;
}
