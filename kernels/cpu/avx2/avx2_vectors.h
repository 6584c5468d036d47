/* avx2_vectors: the vector forms of fixed_math, for the leaves of AVX2.
 *
 * Owns:     nothing.
 * Thread:   any compute thread.
 * Cost:     registers only.
 * Not here: leaves. Included only by files built with the instruction set's flags.
 */
#pragma once

#include <immintrin.h>
#include <stdbool.h>

#include "kernels/cpu/fixed_math.h"

/* Returns the number of elements from i to n, 0 when i is beyond n. */
static inline uint32_t avx2_left(uint32_t n, uint32_t i)
{
    return n > i ? n - i : 0;
}

/* Returns a mask of lanes [0, n). */
static inline __m256i avx2_mask(uint32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* Loads the first n floats, at most 8, and zeros behind them. Touches no other memory. */
static inline __m256 avx2_load(const float *at, uint32_t n)
{
    return n >= 8 ? _mm256_loadu_ps(at) : _mm256_maskload_ps(at, avx2_mask(n));
}

static inline void avx2_store(float *at, uint32_t n, __m256 v)
{
    if (n >= 8)
        _mm256_storeu_ps(at, v);
    else
        _mm256_maskstore_ps(at, avx2_mask(n), v);
}

static inline __m256 avx2_halves(const uint16_t *halves)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)halves));
}

/* fixed_math_fold16 of lanes 0 … 7 and 8 … 15. */
static inline float avx2_fold16(__m256 low, __m256 high)
{
    __m256 by8 = _mm256_add_ps(low, high);
    __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

/* k_norm_scale_ref_int8. */
static inline float avx2_norm_scale(const float *x, uint32_t n, float epsilon)
{
    __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint32_t i = 0; i < n; i += 16) {
        __m256 low = avx2_load(x + i, n - i);
        __m256 high = avx2_load(x + i + 8, avx2_left(n, i + 8));
        lanes[0] = _mm256_fmadd_ps(low, low, lanes[0]);
        lanes[1] = _mm256_fmadd_ps(high, high, lanes[1]);
    }
    return 1.0f / sqrtf(avx2_fold16(lanes[0], lanes[1]) / (float)n + epsilon);
}

/* k_layer_scale_ref_int8. */
static inline float avx2_layer_scale(const float *x, uint32_t n, float epsilon, float *mean)
{
    __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (uint32_t i = 0; i < n; i += 16)
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t left = avx2_left(n, i + 8 * half);
            const __m256 mask = _mm256_castsi256_ps(avx2_mask(left));
            const __m256 sum = _mm256_add_ps(sums[half], avx2_load(x + i + 8 * half, left));
            sums[half] = _mm256_blendv_ps(sums[half], sum, mask);
        }
    *mean = avx2_fold16(sums[0], sums[1]) / (float)n;
    for (uint32_t i = 0; i < n; i += 16)
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t left = avx2_left(n, i + 8 * half);
            const __m256 mask = _mm256_castsi256_ps(avx2_mask(left));
            const __m256 v =
                _mm256_sub_ps(avx2_load(x + i + 8 * half, left), _mm256_set1_ps(*mean));
            lanes[half] = _mm256_blendv_ps(lanes[half], _mm256_fmadd_ps(v, v, lanes[half]), mask);
        }
    return 1.0f / sqrtf(avx2_fold16(lanes[0], lanes[1]) / (float)n + epsilon);
}

/* Returns the greatest lane; no lane may be a NaN. */
static inline float avx2_greatest(__m256 lanes)
{
    __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
    __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_max_ss(by2, _mm_movehdup_ps(by2)));
}

/* fixed_math_exp in 8 lanes. */
static inline __m256 avx2_exp(__m256 x)
{
    const __m256 round = _mm256_set1_ps(FIXED_MATH_ROUND);
    __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(FIXED_MATH_LOG2E), round);
    __m256 n = _mm256_sub_ps(t, round);
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-FIXED_MATH_LN2_HI), x);
    r = _mm256_fmadd_ps(n, _mm256_set1_ps(-(FIXED_MATH_LN2_LO)), r);
    __m256 q = _mm256_fmadd_ps(_mm256_set1_ps(FIXED_MATH_Q4), r, _mm256_set1_ps(FIXED_MATH_Q3));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(FIXED_MATH_Q2));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(FIXED_MATH_Q1));
    q = _mm256_fmadd_ps(q, r, _mm256_set1_ps(FIXED_MATH_Q0));
    __m256 y = _mm256_add_ps(_mm256_fmadd_ps(q, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(y), exponent));
    __m256 is_over = _mm256_cmp_ps(x, _mm256_set1_ps(FIXED_MATH_EXP_MAX), _CMP_GT_OQ);
    __m256 is_under = _mm256_cmp_ps(x, _mm256_set1_ps(FIXED_MATH_EXP_MIN), _CMP_LT_OQ);
    y = _mm256_blendv_ps(y, _mm256_set1_ps(INFINITY), is_over);
    y = _mm256_andnot_ps(is_under, y);
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* Activations and soft caps of fixed_math in 8 lanes, with its functions' names. */
static inline __m256 avx2_sigmoid_mul(__m256 x, __m256 z)
{
    const __m256 minus = _mm256_xor_ps(z, _mm256_set1_ps(-0.0f));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), avx2_exp(minus)));
}

static inline __m256 avx2_gelu_z(__m256 x)
{
    return _mm256_mul_ps(x, _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(FIXED_MATH_GELU_Z3),
                                            _mm256_set1_ps(FIXED_MATH_GELU_Z1)));
}

static inline __m256 avx2_gelu_erf(__m256 x)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 y = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    const __m256 t =
        _mm256_div_ps(one, _mm256_fmadd_ps(y, _mm256_set1_ps(FIXED_MATH_NORMAL_T), one));
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(FIXED_MATH_NORMAL_P7), t,
                               _mm256_set1_ps(FIXED_MATH_NORMAL_P6));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(FIXED_MATH_NORMAL_P5));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(FIXED_MATH_NORMAL_P4));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(FIXED_MATH_NORMAL_P3));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(FIXED_MATH_NORMAL_P2));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(FIXED_MATH_NORMAL_P1));
    p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(FIXED_MATH_NORMAL_P0));
    const __m256 power = _mm256_mul_ps(_mm256_mul_ps(y, _mm256_set1_ps(-0.5f)), y);
    const __m256 above = _mm256_mul_ps(_mm256_mul_ps(p, t), avx2_exp(power));
    const __m256 is_below = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ);
    return _mm256_mul_ps(x, _mm256_blendv_ps(_mm256_sub_ps(one, above), above, is_below));
}

static inline __m256 avx2_softcap(__m256 x, __m256 cap, __m256 inverse)
{
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 minus = _mm256_set1_ps(-0.0f);
    const __m256 u = _mm256_mul_ps(x, inverse);
    const __m256 e = avx2_exp(_mm256_mul_ps(_mm256_andnot_ps(minus, u), _mm256_set1_ps(-2.0f)));
    const __m256 size = _mm256_div_ps(_mm256_sub_ps(one, e), _mm256_add_ps(one, e));
    return _mm256_mul_ps(cap, _mm256_or_ps(_mm256_andnot_ps(minus, size), _mm256_and_ps(u, minus)));
}

/* k_kv_codes_ref of x × by. Writes n codes, rounded up to a multiple of 8; those beyond n are 0. */
static inline float avx2_codes(const float *x, uint32_t n, float by, int8_t *codes)
{
    const __m256 factor = _mm256_set1_ps(by);
    /* compared as integers: magnitudes rise with their bits, and NaN is above all */
    __m256i magnitudes = _mm256_setzero_si256();
    for (uint32_t i = 0; i < n; i += 8) {
        __m256i bits = _mm256_castps_si256(_mm256_mul_ps(avx2_load(x + i, n - i), factor));
        bits = _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MAX));
        magnitudes = _mm256_max_epi32(magnitudes, bits);
    }
    __m128i by4 =
        _mm_max_epi32(_mm256_castsi256_si128(magnitudes), _mm256_extracti128_si256(magnitudes, 1));
    __m128i by2 = _mm_max_epi32(by4, _mm_shuffle_epi32(by4, 0x4e));
    by2 = _mm_max_epi32(by2, _mm_shuffle_epi32(by2, 0xb1));
    const float max = half_bits_float((uint32_t)_mm_cvtsi128_si32(by2));
    const bool is_zero = !(max >= 1e-30f && max < INFINITY);
    const __m256 inverse = _mm256_set1_ps(127.0f / max);
    const __m256i lowest = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    for (uint32_t i = 0; i < n; i += 8) {
        __m256 value = _mm256_mul_ps(avx2_load(x + i, n - i), factor);
        value = _mm256_add_ps(_mm256_mul_ps(value, inverse), _mm256_set1_ps(FIXED_MATH_ROUND));
        __m256i bytes = _mm256_shuffle_epi8(_mm256_castps_si256(value), lowest);
        __m128i code =
            _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
        _mm_storel_epi64((__m128i *)(void *)(codes + i), is_zero ? _mm_setzero_si128() : code);
    }
    return !(max < INFINITY) ? NAN : is_zero ? 0 : max / 127.0f;
}
