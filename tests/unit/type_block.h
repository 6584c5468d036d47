/* type_block: a block of a file against what the format's own program makes of the same bytes
 * (gguf 0.19, quants.dequantize).
 *
 * Owns:     nothing. A test of one weight type includes it.
 */
#pragma once

#include "kernels/types/types.h"
#include "tests/unit/kernels_kit.h"

struct type_block_factor {
    uint32_t at;
    float value;
};

struct type_block {
    uint32_t type;
    struct type_block_factor factors[2]; /* halves of the block; alike when there is one */
    float first, at_17, last;            /* of its values */
    double sum, weighted;                /* of all; each times its number from 1 */
};

static void type_block_check(const struct type_block *want)
{
    enum { VALUES_MAX = 256, BYTES_MAX = 256 };
    const struct tensor_type_info *type = tensor_type_info(want->type);
    const uint32_t values = (uint32_t)type->block_elements;
    unsigned char row[1 + BYTES_MAX];
    float out[VALUES_MAX + 1];
    double sum = 0;
    double weighted = 0;
    assert_true(values <= VALUES_MAX && type->block_bytes <= BYTES_MAX);
    out[values] = 7;
    for (uint32_t i = 0; i < type->block_bytes; i++)
        row[1 + i] = (unsigned char)(i * 37 + 11 + i * i / 7);
    for (size_t i = 0; i < 2; i++)
        kit_half(row + 1 + want->factors[i].at, want->factors[i].value);
    type->to_f32(row + 1, out, values);
    for (uint32_t i = 0; i < values; i++) {
        sum += (double)out[i];
        weighted += (double)out[i] * (i + 1);
    }
    assert_float_equal(out[0], want->first, 0);
    assert_float_equal(out[17], want->at_17, 0);
    assert_float_equal(out[values - 1], want->last, 0);
    assert_true(sum == want->sum);
    assert_true(weighted == want->weighted);
    assert_float_equal(out[values], 7, 0); /* nothing written behind */
}
