/* tensor: types of weights, and a borrowed view of one tensor as a model file stores it.
 *
 * Owns:     the table of types (tensor_types.def); a struct tensor never owns its bytes.
 * Thread:   any.
 * Cost:     O(1); for rows O(row).
 * Not here: reading files (engine/models/gguf), packed forms (kernels.h, struct weight).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/status.h"

enum tensor_type {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m) TENSOR_TYPE_##name = (id),
#include "kernels/tensor_types.def"
};

struct types_part;

struct tensor_type_info {
    const char *name;
    uint32_t id;
    uint32_t block_elements;
    uint32_t block_bytes;
    /* Converts one row of n elements (a multiple of block_elements) to float32, exactly. */
    void (*to_f32)(const void *row, float *out, uint32_t n);
    /* Takes 32 elements of a block apart (kernels/cpu/types); NULL for floats. */
    void (*take)(const unsigned char *block, uint32_t part, struct types_part *out);
};

/* Returns NULL for an unknown id. */
const struct tensor_type_info *tensor_type_info(uint32_t id);
/* Returns all names, each after a space, for messages. */
const char *tensor_type_names(void);

enum { TENSOR_DIMS_MAX = 4 };

/* dims[0] varies fastest: a matrix of `rows` outputs over `cols` inputs is {cols, rows}. */
struct tensor {
    const struct tensor_type_info *type;
    uint32_t dim_count;
    uint64_t dims[TENSOR_DIMS_MAX]; /* unused ones are 1 */
    const void *data;
    uint64_t bytes;
    /* inputs that share their factors, where these are more than a block; 0: none */
    uint32_t group;
};

/* Converts row `row` of a 2-d tensor to dims[0] floats. */
void tensor_row_to_f32(const struct tensor *tensor, uint64_t row, float *out);

/* Quantises `n` floats, a multiple of 32, to q4_1 blocks that share factor and minimum in groups of
 * `group` inputs (a multiple of 32; the last group may be shorter). A group's codes span its least
 * to its greatest value; each value is rounded to the nearest code. Returns false, with `out`
 * partly written, when a value is not finite or does not fit a half. */
bool tensor_row_to_q4_1(const float *row, uint32_t n, uint32_t group, void *out);
