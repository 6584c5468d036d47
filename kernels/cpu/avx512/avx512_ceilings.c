#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/avx512/avx512_vectors.h"

/* Sixteen independent accumulators hide the latency of 4 to 5 cycles on one or two ports. */
enum { CEILINGS_CHAINS = 16 };

uint64_t k_spin_int8_avx512(uint64_t rounds, uint64_t *sink)
{
    __m512i sums[CEILINGS_CHAINS];
    const __m512i w = _mm512_set1_epi8(3);
    const __m512i q = _mm512_set1_epi8((char)*sink);
#pragma GCC unroll 16
    for (int i = 0; i < CEILINGS_CHAINS; i++)
        sums[i] = _mm512_set1_epi32(i);
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 16
        for (int i = 0; i < CEILINGS_CHAINS; i++)
            __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sums[i]) : "v"(w), "v"(q));
    }
#pragma GCC unroll 16
    for (int i = 1; i < CEILINGS_CHAINS; i++)
        sums[0] = _mm512_xor_si512(sums[0], sums[i]);
    *sink += (uint64_t)(uint32_t)_mm512_reduce_add_epi32(sums[0]);
    return rounds * CEILINGS_CHAINS * 64 * 2;
}

uint64_t k_spin_f32_avx512(uint64_t rounds, uint64_t *sink)
{
    __m512 sums[CEILINGS_CHAINS];
    const __m512 w = _mm512_set1_ps(0.5f);
    const __m512 x = _mm512_set1_ps((float)(*sink & 15));
#pragma GCC unroll 16
    for (int i = 0; i < CEILINGS_CHAINS; i++)
        sums[i] = _mm512_set1_ps((float)i);
    for (uint64_t r = 0; r < rounds; r++) {
#pragma GCC unroll 16
        for (int i = 0; i < CEILINGS_CHAINS; i++)
            __asm__ volatile("vfmadd213ps %2, %1, %0" : "+v"(sums[i]) : "v"(w), "v"(x));
    }
#pragma GCC unroll 16
    for (int i = 1; i < CEILINGS_CHAINS; i++)
        sums[0] = _mm512_add_ps(sums[0], sums[i]);
    *sink += (uint64_t)_mm512_reduce_add_ps(sums[0]);
    return rounds * CEILINGS_CHAINS * 16 * 2;
}

void k_read_avx512(const void *bytes, size_t count, uint64_t *sink)
{
    const char *at = bytes;
    __m512i sums[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        sums[i] = _mm512_setzero_si512();
    size_t n = 0;
    for (; n + 256 <= count; n += 256) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            sums[i] = _mm512_xor_si512(sums[i], _mm512_loadu_si512(at + n + 64 * i));
    }
    for (; n + 64 <= count; n += 64)
        sums[0] = _mm512_xor_si512(sums[0], _mm512_loadu_si512(at + n));
    sums[0] =
        _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
    *sink += (uint64_t)_mm512_reduce_add_epi64(sums[0]);
}
