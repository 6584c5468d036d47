#include "kernels/cpu/avx2/avx2.h"

#include "kernels/cpu/avx2/avx2_vectors.h"

/* Computes eight elements, or the `left` remaining ones. Returns them, followed by zeros. */
static inline __m256 sample_exp(const float *x, uint32_t left, float max, float scale, float *out)
{
    __m256 v = _mm256_sub_ps(avx2_load(x, left), _mm256_set1_ps(max));
    v = avx2_exp(_mm256_mul_ps(v, _mm256_set1_ps(scale)));
    avx2_store(out, left, v);
    return left >= 8 ? v : _mm256_and_ps(v, _mm256_castsi256_ps(avx2_mask(left)));
}

float k_row_exp_avx2(const float *x, uint32_t count, float max, float scale, float *out)
{
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (uint32_t i = 0; i < count; i += 16) {
        const uint32_t left = avx2_left(count, i + 8);
        low = _mm256_add_ps(low, sample_exp(x + i, count - i, max, scale, out + i));
        if (left > 0)
            high = _mm256_add_ps(high, sample_exp(x + i + 8, left, max, scale, out + i + 8));
    }
    return avx2_fold16(low, high);
}

/* Writes the indexes of the lanes of v ≥ least, among the first `left`, to `ids`, and up to seven
 * undefined ones behind them. Most vectors have none. */
static inline uint32_t sample_keep(__m256 v, float least, uint32_t left, uint32_t first,
                                   uint32_t *ids)
{
    const __m256 is = _mm256_cmp_ps(v, _mm256_set1_ps(least), _CMP_GE_OQ);
    const uint32_t lanes = left < 8 ? (1u << left) - 1 : 255;
    const uint32_t mask = (uint32_t)_mm256_movemask_ps(is) & lanes;
    uint32_t found = 0;
    for (uint32_t i = 0; mask != 0 && i < 8; i++) {
        ids[found] = first + i;
        found += mask >> i & 1;
    }
    return found;
}

uint32_t k_row_above_avx2(const float *x, uint32_t count, float least, uint32_t *ids)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i += 8)
        found += sample_keep(avx2_load(x + i, count - i), least, count - i, i, ids + found);
    return found;
}

/* Returns the low 64 bits of v × by in 4 lanes. */
static inline __m256i sample_times(__m256i v, uint64_t by)
{
    const __m256i low = _mm256_set1_epi64x((int64_t)(by & UINT32_MAX));
    const __m256i high = _mm256_set1_epi64x((int64_t)(by >> 32));
    const __m256i cross = _mm256_add_epi64(_mm256_mul_epu32(_mm256_srli_epi64(v, 32), low),
                                           _mm256_mul_epu32(v, high));
    return _mm256_add_epi64(_mm256_mul_epu32(v, low), _mm256_slli_epi64(cross, 32));
}

/* Returns the upper 24 bits of ~rng_of in 4 lanes; the last step of rng_of changes lower bits only.
 */
static inline __m256i sample_upper(__m256i v)
{
    v = _mm256_xor_si256(v, _mm256_srli_epi64(v, 30));
    v = sample_times(v, 0xbf58476d1ce4e5b9u);
    v = _mm256_xor_si256(v, _mm256_srli_epi64(v, 27));
    v = sample_times(v, 0x94d049bb133111ebu);
    return _mm256_srli_epi64(_mm256_andnot_si256(v, _mm256_set1_epi64x(-1)), 40);
}

uint32_t k_row_noise_avx2(const struct row_noise_args *args, uint32_t *ids)
{
    /* the step of rng_of from one counter to the next */
    const uint64_t gamma = 0x9e3779b97f4a7c15u;
    const uint64_t first = args->stream + gamma * (args->begin + 1);
    const __m256i half = _mm256_set1_epi64x((int64_t)(4 * gamma));
    __m256i low = _mm256_setr_epi64x((int64_t)first, (int64_t)(first + gamma),
                                     (int64_t)(first + 2 * gamma), (int64_t)(first + 3 * gamma));
    uint32_t found = 0;
    for (uint32_t i = args->begin; i < args->end; i += 8) {
        const uint32_t left = args->end - i;
        const __m256i high = _mm256_add_epi64(low, half);
        /* Shuffles work on 128-bit halves, which leaves the pairs as 0 2 1 3. */
        __m256 pairs = _mm256_shuffle_ps(_mm256_castsi256_ps(sample_upper(low)),
                                         _mm256_castsi256_ps(sample_upper(high)), 0x88);
        __m256i upper = _mm256_permute4x64_epi64(_mm256_castps_si256(pairs), 0xd8);
        __m256 bits = _mm256_cvtepi32_ps(_mm256_castps_si256(_mm256_cvtepi32_ps(upper)));
        __m256 v = _mm256_sub_ps(avx2_load(args->x + i, left),
                                 _mm256_mul_ps(bits, _mm256_set1_ps(args->step)));
        low = _mm256_add_epi64(high, half);
        found += sample_keep(v, args->floor, left, i, ids + found);
    }
    return found;
}
