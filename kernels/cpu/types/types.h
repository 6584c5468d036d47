/* types: reading one row of each weight type of tensor_types.def as float32, exactly.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(n).
 * Not here: packed forms (the instruction sets' own).
 *
 * Blocks as in GGUF files (little-endian, no padding, any alignment):
 *     q8_0  { half d; int8 q[32] }           value i = d × q[i]
 *     q4_0  { half d; uint8 n[16] }          value i = d × (low nibble of n[i] − 8), i < 16
 *                                            value 16 + i = d × (high nibble of n[i] − 8)
 *     q4_1  { half d; half m; uint8 n[16] }  value = d × nibble + m, nibbles as in q4_0
 */
#pragma once

#include <stdint.h>
#include <string.h>

#define TENSOR_TYPE(name, id, elements, bytes)                                                     \
    void type_##name##_to_f32(const void *row, float *out, uint32_t n);
#include "kernels/tensor_types.def"
#undef TENSOR_TYPE

/* Half at any alignment. */
static inline uint16_t types_half_at(const unsigned char *bytes)
{
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return half;
}
