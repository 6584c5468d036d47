/* half: conversions between float32 and IEEE 754 binary16 (bit for bit those of F16C), bfloat16 and
 * float8 e4m3.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a few integer operations; no tables.
 * Not here: vector forms (leaves of the instruction sets).
 */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t half_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float half_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Exact: every half is a float32. */
static inline float half_to_float(uint16_t half)
{
    uint32_t sign = ((uint32_t)half & 0x8000u) << 16;
    uint32_t bits = ((uint32_t)half & 0x7fffu) << 13;
    if (bits >= 0x0f800000u) /* infinity and NaN keep the greatest exponent */
        return half_bits_float(sign | 0x70000000u | bits);
    /* The exponent is 112 too small. A multiplication corrects it, for subnormals too. */
    return half_bits_float(sign | half_float_bits(half_bits_float(bits) * 0x1p112f));
}

/* Rounds to nearest, ties to even. Magnitudes from 65,520 on become infinity; a NaN stays a NaN,
 * made quiet. */
static inline uint16_t half_from_float(float value)
{
    uint32_t bits = half_float_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((bits >> 13) & 0x1ffu));
    if (bits >= 0x477ff000u)
        return (uint16_t)(sign | 0x7c00u);
    /* Below 2^-14 the spacing of subnormal halves is the spacing of floats near 0.5, so adding 0.5
     * rounds. */
    if (bits < 0x38800000u)
        return (uint16_t)(sign | (half_float_bits(half_bits_float(bits) + 0.5f) - 0x3f000000u));
    bits += 0xfffu + ((bits >> 13) & 1u);
    return (uint16_t)(sign | ((bits - 0x38000000u) >> 13));
}

/* Replaces magnitudes below 2^-56 by zero, as linear layers do with bfloat16. Products of two
 * remaining values, and all sums of such products, are multiples of 2^-126. None of them is
 * subnormal, so no bit depends on how an instruction treats subnormals (dot products flush them).
 */
static inline uint16_t half_bf16_normal(uint16_t value)
{
    return (value & 0x7fffu) < 0x2380u ? 0 : value;
}

/* Returns the high half of a float32, rounded to nearest, ties to even; a NaN stays a NaN, made
 * quiet. */
static inline uint16_t half_bf16_from_float(float value)
{
    uint32_t bits = half_float_bits(value);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        rounded = bits >> 16 | 0x40u;
    return half_bf16_normal((uint16_t)rounded);
}

static inline float half_bf16_to_float(uint16_t value)
{
    return half_bits_float((uint32_t)value << 16);
}

/* Float8 with 4 bits of exponent and 3 of mantissa (OCP E4M3: greatest 448, least 2^-9, no
 * infinity). Rounds to nearest, ties to even. Only for magnitudes up to 448. */
static inline uint8_t half_e4m3_from_float(float value)
{
    uint32_t bits = half_float_bits(value);
    uint32_t sign = (bits >> 24) & 0x80u;
    bits &= 0x7fffffffu;
    /* Below 2^-6 the spacing is 2^-9, which is the spacing of floats near 2^14, so adding 2^14
     * rounds. */
    if (bits < 0x3c800000u)
        return (uint8_t)(sign | (half_float_bits(half_bits_float(bits) + 0x1p14f) - 0x46800000u));
    bits += 0x7ffffu + ((bits >> 20) & 1u);
    return (uint8_t)(sign | ((bits - 0x3c000000u) >> 20));
}

/* Exact. The code of a NaN gives 480. */
static inline float half_e4m3_to_float(uint8_t value)
{
    /* Read as a half, the exponent is 8 too small. */
    return half_to_float((uint16_t)((value & 0x80u) << 8 | (value & 0x7fu) << 7)) * 256;
}
