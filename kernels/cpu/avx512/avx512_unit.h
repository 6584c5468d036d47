/* avx512_unit: one unit of packed weights (16 outputs, 32 inputs) as vectors; start and end of a
 * register block of 16 outputs.
 *
 * Owns:     nothing.
 * Thread:   any compute thread.
 * Cost:     registers only.
 * Not here: products (avx512_linear, amx_linear). Included only by files built with the instruction
 *           set's flags.
 */
#pragma once

#include <immintrin.h>

#include "kernels/cpu/packed/packed.h"

/* The work of one register block: 16 outputs × n rows over all blocks. */
struct linear_block {
    const unsigned char *weights; /* the group's units */
    const char *input;            /* the tile's units */
    uint32_t blocks;
    float *y;
    size_t y_stride; /* floats from row to row */
    __mmask16 lanes;
    const float *bias; /* of the outputs; NULL: none */
    bool accumulate;
};

/* `n` is a constant. */
static inline __attribute__((always_inline)) void linear_store(const struct linear_block *block,
                                                               const int n, __m512 *y)
{
    if (block->bias != NULL) {
        const __m512 bias = _mm512_maskz_loadu_ps(block->lanes, block->bias);
#pragma GCC unroll 16
        for (int t = 0; t < n; t++)
            y[t] = _mm512_add_ps(y[t], bias);
    }
#pragma GCC unroll 16
    for (int t = 0; t < n; t++) {
        float *out = block->y + (size_t)t * block->y_stride;
        if (block->accumulate)
            y[t] = _mm512_add_ps(_mm512_maskz_loadu_ps(block->lanes, out), y[t]);
        _mm512_mask_storeu_ps(out, block->lanes, y[t]);
    }
}

/* Loads eight vectors of unsigned bytes, [16 outputs][4 inputs] each. */
static inline __attribute__((always_inline)) void
linear_load(const struct types_form form, const unsigned char *unit, __m512i w[8])
{
    const __m512i low = _mm512_set1_epi8(15);
    if (form.bits == 8) {
#pragma GCC unroll 8
        for (int v = 0; v < 8; v++)
            w[v] = _mm512_loadu_si512(unit + 64 * v);
        return;
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        __m512i nibbles = _mm512_loadu_si512(unit + 64 * v);
        w[v] = _mm512_and_si512(nibbles, low);
        w[4 + v] = _mm512_and_si512(_mm512_srli_epi16(nibbles, 4), low);
    }
    if (form.bits == 4)
        return;
    const int bits = (int)form.bits - 4;
    const __m512i mask = _mm512_set1_epi8((char)(((1 << bits) - 1) << 4));
#pragma GCC unroll 8
    for (int v = 0; v < 8; v++) {
        /* The position of this vector's bits in a byte; they belong at bit 4. */
        const int at = bits * v % 8;
        __m512i high = _mm512_loadu_si512(unit + 256 + 64 * (bits * v / 8));
        high = at < 4 ? _mm512_slli_epi32(high, (unsigned)(4 - at))
                      : _mm512_srli_epi32(high, (unsigned)(at - 4));
        w[v] = _mm512_ternarylogic_epi32(w[v], high, mask, 0xf8); /* w | (high & mask) */
    }
}

/* Returns the start value of a row's exact integer sum, which cancels the offset of w. */
static inline __attribute__((always_inline)) __m512i linear_start(const struct types_form form,
                                                                  const char *times_minus_8)
{
    int32_t value;
    __builtin_memcpy(&value, times_minus_8, sizeof value);
    return _mm512_slli_epi32(_mm512_set1_epi32(value), form.bits == 8 ? 4 : form.bits - 4);
}

static inline __attribute__((always_inline)) __m512 linear_factor(const char *at)
{
    float value;
    __builtin_memcpy(&value, at, sizeof value);
    return _mm512_set1_ps(value);
}

/* d and m of 16 outputs; `super` holds those of eight units. */
struct linear_factors {
    __m512 d[2]; /* of the first and the last 16 inputs */
    __m512 m;
};

static inline __attribute__((always_inline)) struct linear_factors
linear_halves(const struct types_form form, const unsigned char *at)
{
    const __m256i *halves = (const __m256i *)(const void *)at;
    struct linear_factors out;
    out.d[0] = out.d[1] = _mm512_cvtph_ps(_mm256_loadu_si256(halves));
    out.m = form.has_m ? _mm512_cvtph_ps(_mm256_loadu_si256(halves + 1)) : _mm512_setzero_ps();
    return out;
}

static inline __attribute__((always_inline)) struct linear_factors
linear_scaled(const struct types_form form, struct linear_factors super, const unsigned char *at)
{
    const __m128i *bytes = (const __m128i *)(const void *)at;
    __m512 first = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes)));
    __m512 second = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(bytes + 1)));
    super.d[0] = _mm512_mul_ps(super.d[0], first);
    if (form.has_m)
        super.m = _mm512_mul_ps(super.m, second);
    else
        super.d[1] = _mm512_mul_ps(super.d[1], second);
    return super;
}
