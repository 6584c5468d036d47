/* tensor: types of weights and a borrowed view of one tensor as it stands in a model file.
 *
 * Owns:     the table of types (tensor_types.def); a struct tensor never owns its bytes.
 * Thread:   any.
 * Cost:     O(1); of rows O(row).
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
    /* One row of n elements (a multiple of block_elements) to float32, exactly. */
    void (*to_f32)(const void *row, float *out, uint32_t n);
    /* 32 elements of a block taken apart (kernels/cpu/types); NULL for floats. */
    void (*take)(const unsigned char *block, uint32_t part, struct types_part *out);
};

/* NULL when the id is not one of ours. */
const struct tensor_type_info *tensor_type_info(uint32_t id);
/* All names, a space before each, for messages. */
const char *tensor_type_names(void);

enum { TENSOR_DIMS_MAX = 4 };

/* dims[0] is the fastest: a matrix of `rows` outputs over `cols` inputs is {cols, rows}. */
struct tensor {
    const struct tensor_type_info *type;
    uint32_t dim_count;
    uint64_t dims[TENSOR_DIMS_MAX]; /* unused ones are 1 */
    const void *data;
    uint64_t bytes;
    uint32_t group; /* inputs that have equal factors, where more than a block does; 0 = none */
};

/* Row `row` of a 2-d tensor as dims[0] floats. */
void tensor_row_to_f32(const struct tensor *tensor, uint64_t row, float *out);

/* The way back: `n` floats, a multiple of 32, as q4_1 blocks whose factor and minimum are one for
 * each `group` inputs (a multiple of 32; the last group may be shorter). A group's codes reach from
 * its least to its greatest value, each value is rounded to the nearest. False, with `out` half
 * written, when a value is not finite or beyond what a half holds. */
bool tensor_row_to_q4_1(const float *row, uint32_t n, uint32_t group, void *out);
