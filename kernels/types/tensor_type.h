/* tensor_type: what a type of weights is.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: the table of types (tensor), taking blocks apart (kernels/types).
 */
#pragma once

#include <stdint.h>

enum tensor_type {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m) TENSOR_TYPE_##name = (id),
#include "kernels/types/tensor_types.def"
};

struct types_part;

struct tensor_type_info {
    const char *name;
    uint32_t id;
    uint32_t block_elements;
    uint32_t block_bytes;
    /* Converts one row of n elements (a multiple of block_elements) to float32, exactly. */
    void (*to_f32)(const void *row, float *out, uint32_t n);
    /* Takes 32 elements of a block apart (kernels/types); NULL for floats. */
    void (*take)(const unsigned char *block, uint32_t part, struct types_part *out);
};
