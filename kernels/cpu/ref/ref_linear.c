#include "kernels/cpu/ref/ref.h"

#include <string.h>

static size_t linear_row_bytes(const struct tensor_type_info *type, uint32_t cols)
{
    return (size_t)(cols / type->block_elements) * type->block_bytes;
}

size_t k_weight_bytes_ref(const struct tensor_type_info *type, uint32_t rows, uint32_t cols)
{
    return linear_row_bytes(type, cols) * rows;
}

void k_weight_pack_ref(const struct tensor *tensor, uint32_t group_begin, uint32_t group_end,
                       void *packed)
{
    size_t row_bytes = linear_row_bytes(tensor->type, (uint32_t)tensor->dims[0]);
    size_t begin = (size_t)group_begin * TABLE_GROUP;
    size_t end = (size_t)group_end * TABLE_GROUP;
    if (end > tensor->dims[1])
        end = (size_t)tensor->dims[1];
    memcpy((char *)packed + begin * row_bytes, (const char *)tensor->data + begin * row_bytes,
           (end - begin) * row_bytes);
}

const void *k_weight_at_ref(const struct weight *weight, uint32_t row)
{
    return (const char *)weight->packed + row * linear_row_bytes(weight->type, weight->cols);
}

void k_weight_row_ref(const struct weight *weight, uint32_t row, float *out)
{
    weight->type->to_f32(k_weight_at_ref(weight, row), out, weight->cols);
}

bool k_input_wanted_ref(const struct tensor_type_info *type)
{
    (void)type;
    return false;
}

size_t k_input_bytes_ref(uint32_t rows, uint32_t cols)
{
    (void)rows;
    (void)cols;
    return 0;
}

uint32_t k_input_units_ref(uint32_t rows, uint32_t cols)
{
    (void)rows;
    (void)cols;
    return 0;
}

void k_input_pack_ref(const struct table_input *input, uint32_t begin, uint32_t end, void *packed)
{
    (void)input;
    (void)begin;
    (void)end;
    (void)packed;
}

/* Σ w × x with eight partial sums in double: products of float32 are exact then, and the compiler
 * may keep the lanes in vectors. */
static double linear_dot(const float *w, const float *x, uint32_t n)
{
    double lanes[8] = {0};
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (uint32_t j = 0; j < 8; j++)
            lanes[j] += (double)w[i + j] * (double)x[i + j];
    for (; i < n; i++)
        lanes[0] += (double)w[i] * (double)x[i];
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
           ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

void k_linear_f32_ref(const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    float *w = call->scratch;
    const uint32_t begin = call->group_begin * TABLE_GROUP;
    uint32_t end = call->group_end * TABLE_GROUP;
    if (end > weight->rows)
        end = weight->rows;
    for (uint32_t o = begin; o < end; o++) {
        k_weight_row_ref(weight, o, w);
        for (uint32_t r = 0; r < call->rows; r++) {
            float *y = call->y + r * call->y_stride + (o - begin);
            double dot = linear_dot(w, call->x + (size_t)r * weight->cols, weight->cols);
            dot += call->bias != NULL ? (double)call->bias[o - begin] : 0;
            *y = (float)(call->accumulate ? (double)*y + dot : dot);
        }
    }
}
