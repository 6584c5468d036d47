#include "kernels/tensor.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/types/half.h"
#include "kernels/types/types.h"

#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    static void tensor_##name##_to_f32(const void *row, float *out, uint32_t n)                    \
    {                                                                                              \
        struct types_part part;                                                                    \
        for (uint32_t i = 0; i < n; i += TYPES_PART) {                                             \
            type_##name##_take((const unsigned char *)row + (size_t)(i / (elements)) * (bytes),    \
                               i % (elements) / TYPES_PART, &part);                                \
            types_part_to_f32(&part, out + i);                                                     \
        }                                                                                          \
    }
#define TENSOR_FLOAT(name, id, bytes)
#include "kernels/types/tensor_types.def"

static const struct tensor_type_info tensor_types[] = {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    {#name, (id), (elements), (bytes), tensor_##name##_to_f32, type_##name##_take},
#define TENSOR_FLOAT(name, id, bytes) {#name, (id), 1, (bytes), type_##name##_to_f32, NULL},
#include "kernels/types/tensor_types.def"
};

const struct tensor_type_info *tensor_type_info(uint32_t id)
{
    for (size_t i = 0; i < sizeof tensor_types / sizeof tensor_types[0]; i++)
        if (tensor_types[i].id == id)
            return &tensor_types[i];
    return NULL;
}

const char *tensor_type_names(void)
{
    return
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m) " " #name
#include "kernels/types/tensor_types.def"
        ;
}

void tensor_row_to_f32(const struct tensor *tensor, uint64_t row, float *out)
{
    const struct tensor_type_info *type = tensor->type;
    uint64_t row_bytes = tensor->dims[0] / type->block_elements * type->block_bytes;
    ASSERT(tensor->dims[0] <= UINT32_MAX);
    ASSERT(tensor->dims[0] % type->block_elements == 0);
    ASSERT(row < tensor->bytes / row_bytes);
    type->to_f32((const char *)tensor->data + row * row_bytes, out, (uint32_t)tensor->dims[0]);
}

bool tensor_rows_are_valid(const struct tensor *tensor, uint64_t begin, uint64_t end)
{
    const struct tensor_type_info *type = tensor->type;
    const uint64_t blocks = tensor->dims[0] / type->block_elements; /* of a row */
    const unsigned char *bytes = tensor->data;
    ASSERT(end <= tensor->dims[1]);
    if (type->id != TENSOR_TYPE_mxfp4)
        return true;
    bool is_valid = true;
    for (uint64_t b = begin * blocks; b < end * blocks; b++)
        is_valid &= bytes[b * type->block_bytes] <= TYPES_MXFP4_MOST;
    return is_valid;
}

/* --- quantisation --- */

enum { Q4_1_BLOCK = 32, Q4_1_BYTES = 20, Q4_1_LEVELS = 15 };

#define TENSOR_HALF_MAX 65504.0f

static uint32_t group_code(float x, float m, float inverse)
{
    const float level = (x - m) * inverse;
    return level <= 0 ? 0 : level >= Q4_1_LEVELS ? Q4_1_LEVELS : (uint32_t)(level + 0.5f);
}

static void group_write(const float *x, uint32_t count, float low, float high, unsigned char *to)
{
    const uint16_t factors[2] = {half_from_float((high - low) / Q4_1_LEVELS), half_from_float(low)};
    const float d = half_to_float(factors[0]);
    const float m = half_to_float(factors[1]);
    const float inverse = d > 0 ? 1 / d : 0;
    for (uint32_t at = 0; at < count; at += Q4_1_BLOCK, to += Q4_1_BYTES) {
        memcpy(to, factors, sizeof factors);
        for (uint32_t i = 0; i < Q4_1_BLOCK / 2; i++) {
            const uint32_t code = group_code(x[at + i], m, inverse);
            const uint32_t other = group_code(x[at + Q4_1_BLOCK / 2 + i], m, inverse);
            to[4 + i] = (unsigned char)(code | other << 4);
        }
    }
}

/* Returns false when a value does not fit a half. */
static bool group_make(const float *x, uint32_t count, unsigned char *to)
{
    float low = x[0];
    float high = x[0];
    for (uint32_t i = 0; i < count; i++) {
        if (!(x[i] >= -TENSOR_HALF_MAX) || !(x[i] <= TENSOR_HALF_MAX)) /* also false for a NaN */
            return false;
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    group_write(x, count, low, high, to);
    return true;
}

bool tensor_row_to_q4_1(const float *row, uint32_t n, uint32_t group, void *out)
{
    unsigned char *to = out;
    ASSERT(n % Q4_1_BLOCK == 0 && group % Q4_1_BLOCK == 0 && group > 0);
    for (uint32_t at = 0; at < n; at += group)
        if (!group_make(row + at, n - at < group ? n - at : group,
                        to + at / Q4_1_BLOCK * Q4_1_BYTES))
            return false;
    return true;
}

enum { Q8_0_BLOCK = 32, Q8_0_BYTES = 34, Q8_0_MOST = 127 };

static bool block_make(const float *x, unsigned char *to)
{
    float most = 0;
    for (uint32_t i = 0; i < Q8_0_BLOCK; i++) {
        const float size = fabsf(x[i]);
        if (!(size <= TENSOR_HALF_MAX * Q8_0_MOST)) /* also true for a NaN */
            return false;
        most = size > most ? size : most;
    }
    const float d = most / Q8_0_MOST;
    const uint16_t factor = half_from_float(d);
    /* Where the factor is 0 as a half, the codes do not matter; the inverse must be finite. */
    const float inverse = d >= FLT_MIN ? 1 / d : 0;
    memcpy(to, &factor, sizeof factor);
    for (uint32_t i = 0; i < Q8_0_BLOCK; i++)
        to[sizeof factor + i] = (unsigned char)(int8_t)roundf(x[i] * inverse);
    return true;
}

bool tensor_row_to_q8_0(const float *row, uint32_t n, void *out)
{
    unsigned char *to = out;
    ASSERT(n % Q8_0_BLOCK == 0);
    for (uint32_t at = 0; at < n; at += Q8_0_BLOCK, to += Q8_0_BYTES)
        if (!block_make(row + at, to))
            return false;
    return true;
}
