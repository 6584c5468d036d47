#include "kernels/cpu/avx512/avx512.h"

#include "kernels/cpu/avx512/avx512_vectors.h"

float k_row_exp_avx512(const float *x, uint32_t count, float max, float scale, float *out)
{
    __m512 lanes = _mm512_setzero_ps();
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 mask = avx512_mask(count - i);
        __m512 v = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(max));
        v = avx512_exp(_mm512_mul_ps(v, _mm512_set1_ps(scale)));
        _mm512_mask_storeu_ps(out + i, mask, v);
        lanes = _mm512_mask_add_ps(lanes, mask, lanes, v);
    }
    return avx512_fold16(lanes);
}

static inline __m512i sample_rising(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* Writes a whole vector to `ids`, the lanes of `mask` first; compressing straight to memory is
 * slow. */
static inline uint32_t sample_keep(uint32_t *ids, uint32_t first, __mmask16 mask)
{
    __m512i all = _mm512_add_epi32(_mm512_set1_epi32((int32_t)first), sample_rising());
    _mm512_storeu_si512(ids, _mm512_maskz_compress_epi32(mask, all));
    return (uint32_t)__builtin_popcount(mask);
}

uint32_t k_row_above_avx512(const float *x, uint32_t count, float least, uint32_t *ids)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i += 16) {
        __mmask16 mask = avx512_mask(count - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        mask = _mm512_mask_cmp_ps_mask(mask, v, _mm512_set1_ps(least), _CMP_GE_OQ);
        if (mask != 0)
            found += sample_keep(ids + found, i, mask);
    }
    return found;
}

/* Returns the upper 24 bits of ~rng_of in 8 lanes; the last step of rng_of changes lower bits only.
 */
static inline __m256i sample_upper(__m512i v)
{
    v = _mm512_xor_si512(v, _mm512_srli_epi64(v, 30));
    v = _mm512_mullo_epi64(v, _mm512_set1_epi64((int64_t)0xbf58476d1ce4e5b9u));
    v = _mm512_xor_si512(v, _mm512_srli_epi64(v, 27));
    v = _mm512_mullo_epi64(v, _mm512_set1_epi64((int64_t)0x94d049bb133111ebu));
    v = _mm512_andnot_si512(v, _mm512_set1_epi64(-1));
    return _mm512_cvtepi64_epi32(_mm512_srli_epi64(v, 40));
}

uint32_t k_row_noise_avx512(const struct row_noise_args *args, uint32_t *ids)
{
    /* the step of rng_of from one counter to the next */
    const uint64_t gamma = 0x9e3779b97f4a7c15u;
    const __m512i rising = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(sample_rising()));
    const __m512i half = _mm512_set1_epi64((int64_t)(8 * gamma));
    __m512i low =
        _mm512_add_epi64(_mm512_set1_epi64((int64_t)(args->stream + gamma * (args->begin + 1))),
                         _mm512_mullo_epi64(rising, _mm512_set1_epi64((int64_t)gamma)));
    uint32_t found = 0;
    for (uint32_t i = args->begin; i < args->end; i += 16) {
        __mmask16 mask = avx512_mask(args->end - i);
        __m512i high = _mm512_add_epi64(low, half);
        __m512i upper =
            _mm512_inserti64x4(_mm512_castsi256_si512(sample_upper(low)), sample_upper(high), 1);
        __m512 bits = _mm512_cvtepi32_ps(_mm512_castps_si512(_mm512_cvtepi32_ps(upper)));
        __m512 v = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, args->x + i),
                                 _mm512_mul_ps(bits, _mm512_set1_ps(args->step)));
        low = _mm512_add_epi64(high, half);
        mask = _mm512_mask_cmp_ps_mask(mask, v, _mm512_set1_ps(args->floor), _CMP_GE_OQ);
        if (mask != 0)
            found += sample_keep(ids + found, i, mask);
    }
    return found;
}
