/* avx2_unit: one unit of packed weights (16 outputs, 32 inputs) as vectors of 8 outputs each; the
 * end of a register block.
 *
 * Owns:     nothing. The including file first defines LINEAR_IS_SIGNED, which says whether codes of
 *           8 bits come without their offset.
 * Thread:   any compute thread.
 * Cost:     registers only.
 * Not here: products (avx2_linear, avxvnni_linear), loops over units and rows (avx2_leaves.h).
 *           Included only by files built with the instruction set's flags.
 */
#pragma once

#include <immintrin.h>

#include "kernels/cpu/avx2/avx2_vectors.h"
#include "kernels/cpu/packed/packed.h"

/* d and m of 8 outputs. */
struct linear_factors {
    __m256 d[2]; /* of the first and the last 16 inputs */
    __m256 m;
};

static inline __attribute__((always_inline)) __m256 linear_bytes(const unsigned char *at)
{
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at)));
}

/* Returns the factors of the unit at `codes`. `super` holds d and m of eight units, or is NULL. */
static inline __attribute__((always_inline)) struct linear_factors
linear_factors(const struct types_form form, const unsigned char *super, const unsigned char *codes,
               uint32_t half)
{
    const unsigned char *own = codes + packed_code_bytes(form);
    const unsigned char *halves = (super != NULL ? super : own) + 16 * half;
    struct linear_factors out;
    out.d[0] = out.d[1] = avx2_halves((const uint16_t *)(const void *)halves);
    out.m = form.has_m ? avx2_halves((const uint16_t *)(const void *)(halves + 32))
                       : _mm256_setzero_ps();
    if (!types_has_scales(form))
        return out;
    __m256 second = linear_bytes(own + 16 + 8 * half);
    out.d[0] = _mm256_mul_ps(out.d[0], linear_bytes(own + 8 * half));
    if (form.has_m)
        out.m = _mm256_mul_ps(out.m, second);
    else
        out.d[1] = _mm256_mul_ps(out.d[1], second);
    return out;
}

static inline __attribute__((always_inline)) __m256i linear_load(const unsigned char *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* Returns w[v] of packed.h for 8 outputs; codes of 8 bits come without the offset where products
 * are signed. `v` is a constant. */
static inline __attribute__((always_inline)) __m256i
linear_codes(const struct types_form form, const unsigned char *codes, uint32_t half, const int v)
{
    const unsigned char *at = codes + 32 * half;
    if (form.bits == 8) {
        const __m256i w = linear_load(at + 64 * v);
        return LINEAR_IS_SIGNED ? _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80)) : w;
    }
    __m256i w = linear_load(at + 64 * (v % 4));
    w = _mm256_and_si256(v < 4 ? w : _mm256_srli_epi16(w, 4), _mm256_set1_epi8(15));
    if (form.bits == 4)
        return w;
    const int bits = (int)form.bits - 4;
    /* The position of this vector's bits in a byte; they belong at bit 4. */
    const int place = bits * v % 8;
    __m256i high = linear_load(at + 256 + 64 * (bits * v / 8));
    high = place < 4 ? _mm256_slli_epi32(high, 4 - place) : _mm256_srli_epi32(high, place - 4);
    return _mm256_or_si256(
        w, _mm256_and_si256(high, _mm256_set1_epi8((char)(((1 << bits) - 1) << 4))));
}

static inline __attribute__((always_inline)) __m256i linear_four(const char *at)
{
    int32_t value;
    __builtin_memcpy(&value, at, sizeof value);
    return _mm256_set1_epi32(value);
}

static inline __attribute__((always_inline)) __m256 linear_factor(const char *at)
{
    return _mm256_castsi256_ps(linear_four(at));
}

/* The work of one call: 16 outputs of a chunk's tiles, over all blocks. */
struct linear_block {
    const unsigned char *weights; /* the group's units */
    uint32_t blocks;
    const char *input;   /* the chunk's tiles */
    const uint32_t *row; /* first row of each tile, and the end of the chunk */
    uint32_t tiles;
    float *y;
    size_t y_stride; /* floats from row to row */
    uint32_t outputs;
    const float *bias; /* of the outputs; NULL: none */
    bool accumulate;
};

static inline __attribute__((always_inline)) void linear_store(const struct linear_block *block,
                                                               uint32_t rows, __m256 (*y)[2])
{
    for (uint32_t t = 0; t < rows; t++)
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t left = avx2_left(block->outputs, 8 * half);
            float *out = block->y + t * block->y_stride + 8 * (size_t)half;
            if (left > 0 && block->bias != NULL)
                y[t][half] = _mm256_add_ps(y[t][half], avx2_load(block->bias + 8 * half, left));
            if (left > 0 && block->accumulate)
                y[t][half] = _mm256_add_ps(avx2_load(out, left), y[t][half]);
            if (left > 0)
                avx2_store(out, left, y[t][half]);
        }
}
