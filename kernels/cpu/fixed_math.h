/* fixed_math: float operations in a fixed order, in plain C.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     where the build's flags do not include FMA, fmaf is a function call of a few
 *           nanoseconds.
 * Not here: the vector forms, which do the same operations in the same order (avx2, avx512).
 *
 * The integer tables of kernels (ref_int8, avx2, avxvnni, avx512, amx) all follow this order, so
 * that they give the same bits. fmaf rounds once, as the instruction does, so plain C and vectors
 * agree in every bit. The build never contracts a × b + c by itself (-ffp-contract=off).
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/types/half.h"

/* 1.5 × 2^23: adding it rounds a float of magnitude below 2^22 to an integer, ties to even, which
 * is then in the low bits of the sum. */
#define FIXED_MATH_ROUND 0x1.8p23f

/* e^x = 2^n × e^r, n = round(x ÷ ln 2), |r| ≤ ln 2 ÷ 2, e^r = 1 + r + r² × q(r). q interpolates at
 * the five Chebyshev nodes: relative error 1e-8 before rounding, about 1 ulp after. */
#define FIXED_MATH_LOG2E  0x1.715476p+0f
#define FIXED_MATH_LN2_HI 0x1.62e43p-1f
#define FIXED_MATH_LN2_LO (-0x1.05c61p-29f)
#define FIXED_MATH_Q0     0.5f
#define FIXED_MATH_Q1     0x1.5554dep-3f
#define FIXED_MATH_Q2     0x1.55551ap-5f
#define FIXED_MATH_Q3     0x1.120b62p-7f
#define FIXED_MATH_Q4     0x1.6d10fcp-10f
/* Above EXP_MAX (2^127.5) the result is infinity. Below EXP_MIN it is 0, slightly early, so that no
 * result is subnormal. */
#define FIXED_MATH_EXP_MAX 88.37f
#define FIXED_MATH_EXP_MIN (-86.5f)

static inline float fixed_math_exp(float x)
{
    float t = fmaf(x, FIXED_MATH_LOG2E, FIXED_MATH_ROUND);
    float n = t - FIXED_MATH_ROUND;
    float r = fmaf(n, -FIXED_MATH_LN2_HI, x);
    r = fmaf(n, -FIXED_MATH_LN2_LO, r);
    float q = fmaf(FIXED_MATH_Q4, r, FIXED_MATH_Q3);
    q = fmaf(q, r, FIXED_MATH_Q2);
    q = fmaf(q, r, FIXED_MATH_Q1);
    q = fmaf(q, r, FIXED_MATH_Q0);
    float y = fmaf(q, r * r, r) + 1.0f;
    y = half_bits_float(half_float_bits(y) + (half_float_bits(t) << 23));
    if (x > FIXED_MATH_EXP_MAX)
        return INFINITY;
    if (x < FIXED_MATH_EXP_MIN)
        return 0.0f;
    return x == x ? y : x; /* a NaN stays a NaN */
}

/* x ÷ (1 + e^−z): silu(x) with z = x, gelu(x) with z = fixed_math_gelu_z(x). */
static inline float fixed_math_sigmoid_mul(float x, float z)
{
    return x / (1.0f + fixed_math_exp(-z));
}

/* 2 × sqrt(2 ÷ π) × (x + 0.044715 x³): (1 + tanh(z ÷ 2)) ÷ 2 = 1 ÷ (1 + e^−z), so that the result
 * has no difference of near numbers. */
#define FIXED_MATH_GELU_Z1 0x1.988454p+0f
#define FIXED_MATH_GELU_Z3 0x1.2444f2p-4f

static inline float fixed_math_gelu_z(float x)
{
    return x * fmaf(x * x, FIXED_MATH_GELU_Z3, FIXED_MATH_GELU_Z1);
}

/* The gate of GPT-OSS: z = 1.702 x; x is at most 7, its factor within ±7. */
#define FIXED_MATH_CLAMP   7.0f
#define FIXED_MATH_CLAMP_Z 0x1.b3b646p+0f

/* 1 − Φ(y) = e^(−y² ÷ 2) × t × p(t), t = 1 ÷ (1 + 0.31 y), for y ≥ 0, where Φ is the normal
 * distribution. p interpolates at the eight Chebyshev nodes of 0 ≤ y ≤ 13.2: relative error 2e-7
 * before rounding. The form is that of Hastings (1955). */
#define FIXED_MATH_NORMAL_T  0x1.3d70a4p-2f
#define FIXED_MATH_NORMAL_P0 0x1.fa7b72p-4f
#define FIXED_MATH_NORMAL_P1 0x1.fc67c0p-4f
#define FIXED_MATH_NORMAL_P2 0x1.b7ddaep-4f
#define FIXED_MATH_NORMAL_P3 0x1.c807c6p-4f
#define FIXED_MATH_NORMAL_P4 (-0x1.18ac56p-6f)
#define FIXED_MATH_NORMAL_P5 0x1.424f66p-3f
#define FIXED_MATH_NORMAL_P6 (-0x1.249d5ep-3f)
#define FIXED_MATH_NORMAL_P7 0x1.27fcecp-5f

/* x × Φ(x) = x ÷ 2 × (1 + erf(x ÷ sqrt(2))). */
static inline float fixed_math_gelu_erf(float x)
{
    const float y = fabsf(x);
    const float t = 1.0f / fmaf(y, FIXED_MATH_NORMAL_T, 1.0f);
    float p = fmaf(FIXED_MATH_NORMAL_P7, t, FIXED_MATH_NORMAL_P6);
    p = fmaf(p, t, FIXED_MATH_NORMAL_P5);
    p = fmaf(p, t, FIXED_MATH_NORMAL_P4);
    p = fmaf(p, t, FIXED_MATH_NORMAL_P3);
    p = fmaf(p, t, FIXED_MATH_NORMAL_P2);
    p = fmaf(p, t, FIXED_MATH_NORMAL_P1);
    p = fmaf(p, t, FIXED_MATH_NORMAL_P0);
    const float above = p * t * fixed_math_exp(y * -0.5f * y);
    return x * (x < 0.0f ? above : 1.0f - above);
}

/* cap × tanh(x ÷ cap), where inverse = 1 ÷ cap. tanh|u| = (1 − e) ÷ (1 + e), e = e^(−2|u|), with an
 * absolute error of 1e-7. */
static inline float fixed_math_softcap(float x, float cap, float inverse)
{
    const float u = x * inverse;
    const float e = fixed_math_exp(fabsf(u) * -2.0f);
    return cap * copysignf((1.0f - e) / (1.0f + e), u);
}

/* Sum of 16 lanes: j with j + 8, then + 4, + 2, + 1. */
static inline float fixed_math_fold16(const float lanes[16])
{
    float sum[16];
    memcpy(sum, lanes, sizeof sum);
    for (int step = 8; step > 0; step /= 2)
        for (int j = 0; j < step; j++)
            sum[j] = sum[j] + sum[j + step];
    return sum[0];
}

/* Returns the greater value; b when either is a NaN, as the vector instruction does. */
static inline float fixed_math_max(float a, float b)
{
    return a > b ? a : b;
}

/* Returns the factor that scales a head's sum of weighted values. `sum` is the sum of its weights
 * exp(logit − max). Without a sink (NULL) the factor is 1 ÷ sum. A sink is a logit that adds a
 * weight and no value: the factor is then 1 ÷ (sum + exp(*sink − max)), computed relative to the
 * greater of `max` and `*sink`. */
static inline float fixed_math_softmax_factor(const float *sink, float max, float sum)
{
    if (sink == NULL)
        return 1.0f / sum;
    const float both = fixed_math_max(max, *sink);
    const float shrink = fixed_math_exp(max - both);
    return shrink / fmaf(sum, shrink, fixed_math_exp(*sink - both));
}
