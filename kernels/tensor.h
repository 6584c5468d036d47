/* tensor: types of weights, and a borrowed view of one tensor as a model file stores it.
 *
 * Owns:     the table of types (tensor_types.def); a struct tensor never owns its bytes.
 * Thread:   any.
 * Cost:     O(1); for rows O(row).
 * Not here: reading files (engine/models/gguf), packed forms (kernels.h, struct weight).
 */
#pragma once

#include <stdbool.h>

#include "config/base/status.h"
#include "kernels/types/tensor_type.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* Returns whether all factors of rows [begin, end) are within what this program can compute: false
 * for an mxfp4 block above 2^15, which its type allows and no model has. Cost: reads the rows. */
bool tensor_rows_are_valid(const struct tensor *tensor, uint64_t begin, uint64_t end);

/* Quantises `n` floats, a multiple of 32, to q4_1 blocks that share factor and minimum in groups of
 * `group` inputs (a multiple of 32; the last group may be shorter). A group's codes span its least
 * to its greatest value; each value is rounded to the nearest code. Returns false, with `out`
 * partly written, when a value is not finite or does not fit a half. */
bool tensor_row_to_q4_1(const float *row, uint32_t n, uint32_t group, void *out);

/* Quantises `n` floats, a multiple of 32, to q8_0 blocks. The greatest magnitude of a block has the
 * code 127; each value is rounded to the nearest code, as llama.cpp does. Returns false, with `out`
 * partly written, when a value is not finite or a block's factor does not fit a half. */
bool tensor_row_to_q8_0(const float *row, uint32_t n, void *out);

#ifdef __cplusplus
}
#endif
