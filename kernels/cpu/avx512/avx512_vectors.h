/* avx512_vectors: the vector forms of fixed_math, for the leaves of AVX-512.
 *
 * Owns:     nothing.
 * Thread:   any compute thread.
 * Cost:     registers only.
 * Not here: leaves. Included only by files built with the instruction set's flags.
 */
#pragma once

#include <immintrin.h>

#include "kernels/cpu/fixed_math.h"

/* Returns a mask of lanes [0, n); n is clipped to 0 … 16. */
static inline __mmask16 avx512_mask(uint32_t n)
{
    return (__mmask16)(n >= 16 ? 0xffffu : (1u << n) - 1);
}

/* fixed_math_fold16. */
static inline float avx512_fold16(__m512 lanes)
{
    __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
    __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
    return _mm_cvtss_f32(_mm_add_ss(by2, _mm_movehdup_ps(by2)));
}

/* k_norm_scale_ref_int8. */
static inline float avx512_norm_scale(const float *x, uint32_t cols, float epsilon)
{
    __m512 lanes = _mm512_setzero_ps();
    for (uint32_t i = 0; i < cols; i += 16) {
        __mmask16 mask = avx512_mask(cols - i);
        __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
        lanes = _mm512_mask3_fmadd_ps(v, v, lanes, mask);
    }
    return 1.0f / sqrtf(avx512_fold16(lanes) / (float)cols + epsilon);
}

/* k_layer_scale_ref_int8. */
static inline float avx512_layer_scale(const float *x, uint32_t cols, float epsilon, float *mean)
{
    __m512 sums = _mm512_setzero_ps();
    __m512 lanes = _mm512_setzero_ps();
    for (uint32_t i = 0; i < cols; i += 16) {
        const __mmask16 mask = avx512_mask(cols - i);
        sums = _mm512_mask_add_ps(sums, mask, sums, _mm512_maskz_loadu_ps(mask, x + i));
    }
    *mean = avx512_fold16(sums) / (float)cols;
    for (uint32_t i = 0; i < cols; i += 16) {
        const __mmask16 mask = avx512_mask(cols - i);
        const __m512 v = _mm512_sub_ps(_mm512_maskz_loadu_ps(mask, x + i), _mm512_set1_ps(*mean));
        lanes = _mm512_mask3_fmadd_ps(v, v, lanes, mask);
    }
    return 1.0f / sqrtf(avx512_fold16(lanes) / (float)cols + epsilon);
}

/* Reduces each of four vectors to one number by `op` of halves, quarters, pairs. */
#define AVX512_REDUCE_16X4(name, op)                                                               \
    static inline __m128 name(const __m512 v[4])                                                   \
    {                                                                                              \
        __m512 ab =                                                                                \
            op(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));    \
        __m512 cd =                                                                                \
            op(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));    \
        __m512 by4 = op(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));   \
        __m512 by2 = op(by4, _mm512_permute_ps(by4, 0x4e));                                        \
        __m512 one = op(by2, _mm512_permute_ps(by2, 0xb1));                                        \
        const __m512i firsts = _mm512_castsi128_si512(_mm_setr_epi32(0, 4, 8, 12));                \
        return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, one));                         \
    }

/* fixed_math_fold16 of four vectors; the greatest lane of each of four vectors without NaN. */
AVX512_REDUCE_16X4(avx512_fold16x4, _mm512_add_ps)
AVX512_REDUCE_16X4(avx512_max16x4, _mm512_max_ps)

/* fixed_math_exp in 16 lanes; a NaN comes out quiet. */
static inline __m512 avx512_exp(__m512 x)
{
    const __m512 round = _mm512_set1_ps(FIXED_MATH_ROUND);
    __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(FIXED_MATH_LOG2E), round);
    __m512 n = _mm512_sub_ps(t, round);
    __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-FIXED_MATH_LN2_HI), x);
    r = _mm512_fmadd_ps(n, _mm512_set1_ps(-(FIXED_MATH_LN2_LO)), r);
    __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(FIXED_MATH_Q4), r, _mm512_set1_ps(FIXED_MATH_Q3));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(FIXED_MATH_Q2));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(FIXED_MATH_Q1));
    q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(FIXED_MATH_Q0));
    __m512 y = _mm512_add_ps(_mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
    __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    __mmask16 is_not_under = _mm512_cmp_ps_mask(x, _mm512_set1_ps(FIXED_MATH_EXP_MIN), _CMP_NLT_UQ);
    __mmask16 is_over_or_nan =
        _mm512_cmp_ps_mask(x, _mm512_set1_ps(FIXED_MATH_EXP_MAX), _CMP_NLE_UQ);
    y = _mm512_castsi512_ps(_mm512_maskz_add_epi32(is_not_under, _mm512_castps_si512(y), exponent));
    return _mm512_mask_add_ps(y, is_over_or_nan, x, _mm512_set1_ps(INFINITY));
}

/* Activations and soft caps of fixed_math in 16 lanes, with its functions' names. */
static inline __m512 avx512_sigmoid_mul(__m512 x, __m512 z)
{
    const __m512 minus = _mm512_xor_ps(z, _mm512_set1_ps(-0.0f));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), avx512_exp(minus)));
}

static inline __m512 avx512_gelu_z(__m512 x)
{
    return _mm512_mul_ps(x, _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(FIXED_MATH_GELU_Z3),
                                            _mm512_set1_ps(FIXED_MATH_GELU_Z1)));
}

static inline __m512 avx512_gelu_erf(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 y = _mm512_abs_ps(x);
    const __m512 t =
        _mm512_div_ps(one, _mm512_fmadd_ps(y, _mm512_set1_ps(FIXED_MATH_NORMAL_T), one));
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(FIXED_MATH_NORMAL_P7), t,
                               _mm512_set1_ps(FIXED_MATH_NORMAL_P6));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(FIXED_MATH_NORMAL_P5));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(FIXED_MATH_NORMAL_P4));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(FIXED_MATH_NORMAL_P3));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(FIXED_MATH_NORMAL_P2));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(FIXED_MATH_NORMAL_P1));
    p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(FIXED_MATH_NORMAL_P0));
    const __m512 power = _mm512_mul_ps(_mm512_mul_ps(y, _mm512_set1_ps(-0.5f)), y);
    const __m512 above = _mm512_mul_ps(_mm512_mul_ps(p, t), avx512_exp(power));
    const __mmask16 is_below = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_mul_ps(x, _mm512_mask_mov_ps(_mm512_sub_ps(one, above), is_below, above));
}

static inline __m512 avx512_softcap(__m512 x, __m512 cap, __m512 inverse)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 u = _mm512_mul_ps(x, inverse);
    const __m512 e = avx512_exp(_mm512_mul_ps(_mm512_abs_ps(u), _mm512_set1_ps(-2.0f)));
    const __m512 size = _mm512_div_ps(_mm512_sub_ps(one, e), _mm512_add_ps(one, e));
    const __m512 sign = _mm512_and_ps(u, _mm512_set1_ps(-0.0f));
    return _mm512_mul_ps(cap, _mm512_or_ps(_mm512_abs_ps(size), sign));
}

/* isum += Σ of 4 products: unsigned bytes of w, and in every lane the 4 signed bytes at `q`. gcc 12
 * splits the intrinsic's memory operand into a broadcast and a dot product, which is a fifth
 * slower. */
static inline __m512i avx512_dot(__m512i isum, __m512i w, const int8_t *q)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(isum)
            : "v"(w), "m"(*(const int32_t(*)[1])(const void *)q));
    return isum;
}

/* y = fma(w[1], x[1], y), then fma(w[0], x[0], y) of the two bfloat16 in each lane of w and the two
 * at `pair`; for processors with AVX-512 BF16. Written as assembly, so that no file needs the flags
 * for it. */
static inline __m512 avx512_dot_bf16(__m512 y, __m512 w, const float *pair)
{
    __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(y) : "v"(w), "m"(*(const float(*)[1])pair));
    return y;
}

/* Of pairs of lanes a and b: returns a + b in lane a and a − b in lane b. `other` is x with the
 * lanes of each pair exchanged; `is_high` has the lanes b. */
static inline __m512 avx512_butterfly(__m512 x, __m512 other, __mmask16 is_high)
{
    return _mm512_mask_sub_ps(_mm512_add_ps(other, x), is_high, other, x);
}

/* k_hadamard_ref of 64 elements. */
static inline void avx512_hadamard(__m512 x[4])
{
    for (int i = 0; i < 4; i++) {
        x[i] = avx512_butterfly(x[i], _mm512_permute_ps(x[i], 0xb1), 0xaaaa);
        x[i] = avx512_butterfly(x[i], _mm512_permute_ps(x[i], 0x4e), 0xcccc);
        x[i] = avx512_butterfly(x[i], _mm512_shuffle_f32x4(x[i], x[i], 0xb1), 0xf0f0);
        x[i] = avx512_butterfly(x[i], _mm512_shuffle_f32x4(x[i], x[i], 0x4e), 0xff00);
    }
    const __m512 sum[2] = {_mm512_add_ps(x[0], x[1]), _mm512_add_ps(x[2], x[3])};
    const __m512 rest[2] = {_mm512_sub_ps(x[0], x[1]), _mm512_sub_ps(x[2], x[3])};
    const __m512 scale = _mm512_set1_ps(0x1p-3f);
    x[0] = _mm512_mul_ps(_mm512_add_ps(sum[0], sum[1]), scale);
    x[1] = _mm512_mul_ps(_mm512_add_ps(rest[0], rest[1]), scale);
    x[2] = _mm512_mul_ps(_mm512_sub_ps(sum[0], sum[1]), scale);
    x[3] = _mm512_mul_ps(_mm512_sub_ps(rest[0], rest[1]), scale);
}

/* k_kv_codes_ref of x × by. Writes n codes, rounded up to a multiple of 16; those beyond n are 0.
 * *sum is the sum of the codes. */
static inline float avx512_codes(const float *x, uint32_t n, float by, int8_t *codes, int32_t *sum)
{
    const __m512 factor = _mm512_set1_ps(by);
    /* compared as integers: magnitudes rise with their bits, and NaN is above all */
    __m512i magnitudes = _mm512_setzero_si512();
    __m512i sums = _mm512_setzero_si512();
    for (uint32_t i = 0; i < n; i += 16) {
        __m512 value = _mm512_mul_ps(_mm512_maskz_loadu_ps(avx512_mask(n - i), x + i), factor);
        magnitudes = _mm512_max_epu32(magnitudes, _mm512_castps_si512(_mm512_abs_ps(value)));
    }
    const float max = half_bits_float(_mm512_reduce_max_epu32(magnitudes));
    const bool is_zero = !(max >= 1e-30f && max < INFINITY);
    const __m512 inverse = _mm512_set1_ps(127.0f / max);
    for (uint32_t i = 0; i < n; i += 16) {
        __mmask16 mask = is_zero ? 0 : avx512_mask(n - i);
        __m512 value = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), factor);
        value = _mm512_add_ps(_mm512_mul_ps(value, inverse), _mm512_set1_ps(FIXED_MATH_ROUND));
        __m128i code = _mm_maskz_mov_epi8(mask, _mm512_cvtepi32_epi8(_mm512_castps_si512(value)));
        _mm_storeu_si128((__m128i *)(void *)(codes + i), code);
        sums = _mm512_add_epi32(sums, _mm512_cvtepi8_epi32(code));
    }
    *sum = _mm512_reduce_add_epi32(sums);
    return !(max < INFINITY) ? NAN : is_zero ? 0 : max / 127.0f;
}
