/* kernels_kit: random tensors, vectors and pages for the tests of the kernels.
 *
 * Owns:     nothing but what its caller frees with free().
 * Not here: assertions about results.
 */
#pragma once

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "kernels/half.h"
#include "kernels/kernels.h"

static inline float kit_float(struct rng *rng)
{
    return (float)(rng_unit(rng_next(rng)) * 2 - 1);
}

static inline float *kit_floats(struct rng *rng, size_t n, float scale)
{
    float *out = malloc((n + 1) * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++)
        out[i] = kit_float(rng) * scale;
    return out;
}

/* A matrix as in a file: random codes, scales that give weights of about ±0.3. */
static inline struct tensor kit_tensor(struct rng *rng, uint32_t id, uint32_t rows, uint32_t cols)
{
    const struct tensor_type_info *type = tensor_type_info(id);
    assert_non_null(type);
    size_t blocks = (size_t)rows * (cols / type->block_elements);
    size_t bytes = blocks * type->block_bytes;
    unsigned char *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)rng_next(rng);
    for (size_t b = 0; b < blocks; b++) {
        unsigned char *block = data + b * type->block_bytes;
        float value = kit_float(rng) * 0.3f;
        if (id == TENSOR_TYPE_f32) {
            memcpy(block, &value, sizeof value);
            continue;
        }
        if (id == TENSOR_TYPE_q4_0 || id == TENSOR_TYPE_q4_1)
            value /= 8;
        if (id == TENSOR_TYPE_q8_0)
            value /= 127;
        uint16_t half = half_from_float(value);
        memcpy(block, &half, sizeof half);
        half = half_from_float(kit_float(rng) * 0.2f);
        if (id == TENSOR_TYPE_q4_1)
            memcpy(block + 2, &half, sizeof half);
    }
    return (struct tensor){
        .type = type, .dim_count = 2, .dims = {cols, rows, 1, 1}, .data = data, .bytes = bytes};
}

static inline struct kernels *kit_kernels(const char *isa, uint32_t threads, uint32_t rows_max,
                                          uint32_t cols_max)
{
    struct kernels *kernels;
    struct kernels_options options = {
        .isa = isa, .threads = threads, .rows_max = rows_max, .cols_max = cols_max};
    assert_int_equal(kernels_create(&kernels, &options), STATUS_OK);
    return kernels;
}

static inline void kit_assert_close(const float *a, const float *b, size_t n, float tolerance)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= tolerance))
            fail_msg("element %zu of %zu: %.9g and %.9g differ by more than %g", i, n, (double)a[i],
                     (double)b[i], (double)tolerance);
}

/* Says where the first difference is, which assert_memory_equal does not. */
static inline void kit_assert_same_bits(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (half_float_bits(a[i]) != half_float_bits(b[i]))
            fail_msg("element %zu of %zu: %a and %a", i, n, (double)a[i], (double)b[i]);
}
