/* types: reading each weight type of tensor_types.def: blocks unpacked, floats as float32.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(n).
 * Not here: packed forms (cpu/packed).
 *
 * Blocks have the form of GGUF files (little-endian, no padding, any alignment). n[i] of 32 codes
 * holds code i in its low nibble and code 16 + i in its high one; bit i of h is the fifth bit of
 * code i:
 *     q8_0  { half d; int8 q[32] }                    value = d × q
 *     q4_0  { half d; uint8 n[16] }                   value = d × (code − 8)
 *     q4_1  { half d; half m; uint8 n[16] }           value = d × code + m
 *     q5_0  { half d; uint32 h; uint8 n[16] }         value = d × (code − 16)
 *     q5_1  { half d; half m; uint32 h; uint8 n[16] } value = d × code + m
 *     mxfp4 { uint8 e; uint8 n[16] }                  value = 2^(e − 128) × the code's of {0, 1, 2,
 *           3, 4, 6, 8, 12, then the same negated}: with 16 added, a code of q5_0 whose d is 2^(e −
 *           128), exactly, for e from 104 to TYPES_MXFP4_MOST; a smaller e counts as d = 0
 * and in blocks of 8 parts of 32 (q6_k: 16 of 16) with small factors of their own:
 *     q4_k  { half d; half m; uint8 s[12]; uint8 n[4][32] }
 *           value = d × scale × code − m × min; two parts a row of n: low nibbles, high ones;
 *           s: six bits each of 8 scales and 8 mins (types_scales)
 *     q5_k  { half d; half m; uint8 s[12]; uint8 h[32]; uint8 n[4][32] }
 *           likewise; bit p of h[i] is the fifth bit of code i of part p
 *     q6_k  { uint8 n[2][64]; uint8 h[2][32]; int8 scale[16]; half d }
 *           value = d × scale × (code − 32); of each half of 128: codes 0 … 63 in low nibbles,
 *           64 … 127 in high ones, two more bits of code 32p + i in bits 2p of h[i]
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/types/tensor_type.h"

enum { TYPES_PART = 32, TYPES_MXFP4_MOST = 143 };

/* 32 values of one row: value i = (d × scales[i ÷ 16]) × w[i] + m × min, each operation rounded to
 * float32 in this order (d and m are halves; the two products are exact). Without has_m, m is −0,
 * which adds nothing. */
struct types_part {
    int8_t w[TYPES_PART]; /* codes minus their offset */
    uint16_t d;
    uint16_t m;
    int8_t scales[2];
    int8_t min;
};

/* The form of a type's codes, computed at compile time where the id is a constant. */
struct types_form {
    uint32_t elements;
    uint32_t bits; /* 0: floats */
    bool has_m;
};

static inline __attribute__((always_inline)) struct types_form types_form(uint32_t id)
{
    switch (id) {
#define TENSOR_TYPE(name, type_id, elements, bytes, bits, has_m)                                   \
    case type_id:                                                                                  \
        return (struct types_form){elements, bits, has_m};
#include "kernels/types/tensor_types.def"
    default:
        return (struct types_form){0};
    }
}

/* Returns whether parts have small factors of their own, and d and m belong to eight parts. */
static inline bool types_has_scales(struct types_form form)
{
    return form.elements > TYPES_PART;
}

/* Returns whether the two halves of a part have different scales. */
static inline bool types_is_split(struct types_form form)
{
    return types_has_scales(form) && !form.has_m;
}

/* Returns the offset that makes w non-negative. */
static inline uint32_t types_offset(struct types_form form)
{
    return form.has_m ? 0 : 1u << (form.bits - 1);
}

/* Unpacks part `part` of a block. A block of 32 is one part, with `part` 0. */
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    void type_##name##_take(const unsigned char *block, uint32_t part, struct types_part *out);
#define TENSOR_FLOAT(name, id, bytes)                                                              \
    void type_##name##_to_f32(const void *row, float *out, uint32_t n);
#include "kernels/types/tensor_types.def"

void types_part_to_f32(const struct types_part *part, float *out);

/* Unpacks part `index` of a row. */
static inline void types_take(const struct tensor_type_info *type, const void *row, uint32_t index,
                              struct types_part *out)
{
    const uint32_t parts = type->block_elements / TYPES_PART;
    type->take((const unsigned char *)row + (size_t)(index / parts) * type->block_bytes,
               index % parts, out);
}

/* Reads a half at any alignment. */
static inline uint16_t types_half_at(const unsigned char *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return half;
}

/* Sets the factors of a part with one factor, and m or none (−0). */
static inline void types_plain(const unsigned char *d, const unsigned char *m,
                               struct types_part *out)
{
    out->d = types_half_at(d);
    out->m = m != NULL ? types_half_at(m) : 0x8000;
    out->scales[0] = out->scales[1] = out->min = 1;
}

/* Sets w from the codes of 16 bytes of nibbles and their fifth bits, minus an offset. */
static inline void types_nibbles(const unsigned char *nibbles, uint32_t fifths, int offset,
                                 int8_t *w)
{
    for (uint32_t i = 0; i < 16; i++) {
        w[i] = (int8_t)((nibbles[i] & 15) + (int)(fifths >> i & 1) * 16 - offset);
        w[16 + i] = (int8_t)((nibbles[i] >> 4) + (int)(fifths >> (16 + i) & 1) * 16 - offset);
    }
}

/* Sets the factors of part p of q4_k and q5_k. The first four scales and mins are the low six bits
 * of bytes 0 … 3 and 4 … 7. The low four bits of the others are in bytes 8 … 11 (scale low, min
 * high), and their high two bits are the top bits of bytes 0 … 7. m × min is subtracted. */
static inline void types_scales(const unsigned char *block, uint32_t p, struct types_part *out)
{
    const unsigned char *s = block + 4;
    out->d = types_half_at(block);
    out->m = types_half_at(block + 2) ^ 0x8000;
    int scale = p < 4 ? s[p] & 63 : (s[p + 4] & 15) | (s[p - 4] >> 6) << 4;
    int min = p < 4 ? s[p + 4] & 63 : s[p + 4] >> 4 | (s[p] >> 6) << 4;
    out->scales[0] = out->scales[1] = (int8_t)scale;
    out->min = (int8_t)min;
}
