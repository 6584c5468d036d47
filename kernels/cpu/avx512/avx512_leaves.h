/* avx512_leaves: a leaf for each coded type and number of rows, made from the linear_block_run of
 * the including file with type and number as constants.
 *
 * Owns:     linear_of. The including file defines LINEAR_SIZES(X), the numbers of rows, and
 *           LINEAR_LEAF(type), the name of a type's leaf.
 * Thread:   any compute thread.
 * Cost:     a call for each register block.
 * Not here: products (avx512_linear).
 */
#pragma once

#include "kernels/cpu/avx512/avx512_unit.h"

static inline __attribute__((always_inline)) void
linear_block_sized(const struct types_form form, uint32_t n, const struct linear_block *block)
{
    switch (n) {
#define LINEAR_CASE(size)                                                                          \
    case size:                                                                                     \
        linear_block_run(form, size, block);                                                       \
        break;
        LINEAR_SIZES(LINEAR_CASE)
#undef LINEAR_CASE
    default:
        break;
    }
}

#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    static void LINEAR_LEAF(name)(uint32_t n, const struct linear_block *block)                    \
    {                                                                                              \
        linear_block_sized(types_form(id), n, block);                                              \
    }
#define TENSOR_FLOAT(name, id, bytes)
#include "kernels/types/tensor_types.def"

typedef void linear_run(uint32_t n, const struct linear_block *block);

/* Returns the leaf for a type's register blocks; NULL for floats. */
static linear_run *linear_of(uint32_t type_id)
{
    switch (type_id) {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    case id:                                                                                       \
        return LINEAR_LEAF(name);
#define TENSOR_FLOAT(name, id, bytes)
#include "kernels/types/tensor_types.def"
    default:
        return NULL;
    }
}
