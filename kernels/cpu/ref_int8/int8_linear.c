#include "kernels/cpu/ref_int8/ref_int8.h"

#include <string.h>

#include "kernels/cpu/fixed_math.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/types/types.h"

void k_quantise_block_ref_int8(const float *x, struct ref_int8_block *out)
{
    float max = 0;
    int32_t sum = 0;
    for (int i = 0; i < TABLE_BLOCK; i++)
        max = fixed_math_max(fabsf(x[i]), max);
    if (!(max >= 1e-30f && max < INFINITY)) {
        memset(out, 0, sizeof *out);
        return;
    }
    float inverse = 127.0f / max;
    for (int i = 0; i < TABLE_BLOCK; i++) {
        out->q[i] = (int8_t)(half_float_bits(x[i] * inverse + FIXED_MATH_ROUND) & 0xffu);
        sum += out->q[i];
    }
    out->scale = max / 127.0f;
    out->sum = sum;
}

bool k_input_wanted_ref_int8(const struct tensor_type_info *type)
{
    return type->take != NULL;
}

size_t k_input_bytes_ref_int8(uint32_t rows, uint32_t cols)
{
    return (size_t)rows * (cols / TABLE_BLOCK) * sizeof(struct ref_int8_block);
}

uint32_t k_input_units_ref_int8(uint32_t rows, uint32_t cols)
{
    return rows * (cols / TABLE_BLOCK);
}

static float input_scale(const struct table_input *input, const float *row, float *mean)
{
    return input->norm_kind == NORM_LAYER
               ? k_layer_scale_ref_int8(row, input->cols, input->epsilon, mean)
               : k_norm_scale_ref_int8(row, input->cols, input->epsilon);
}

/* Returns input `col`, whose value is x, as k_norm_ref_int8 writes it. */
static float input_normed(const struct table_input *input, uint32_t col, float x, float scale,
                          float mean)
{
    if (input->norm_kind == NORM_RMS)
        return x * scale * input->norm[col];
    return fmaf((x - mean) * scale, input->norm[col],
                input->norm_bias != NULL ? input->norm_bias[col] : 0);
}

/* The blocks of all rows are adjacent, in the order of x. */
void k_input_pack_ref_int8(const struct table_input *input, uint32_t begin, uint32_t end,
                           void *packed)
{
    const uint32_t blocks = input->cols / TABLE_BLOCK;
    struct ref_int8_block *out = packed;
    float scale = 0;
    float mean = 0;
    for (uint32_t b = begin; b < end; b++) {
        const uint32_t row_of = input->order != NULL ? input->order[b / blocks] : b / blocks;
        const float *x = input->x + ((size_t)row_of * blocks + b % blocks) * TABLE_BLOCK;
        float normed[TABLE_BLOCK];
        if (input->norm != NULL) {
            const float *row = input->x + (size_t)(b / blocks) * input->cols;
            if (b == begin || b % blocks == 0)
                scale = input_scale(input, row, &mean);
            for (uint32_t i = 0; i < TABLE_BLOCK; i++)
                normed[i] = input_normed(input, b % blocks * TABLE_BLOCK + i, x[i], scale, mean);
            x = normed;
        }
        k_quantise_block_ref_int8(x, &out[b]);
    }
}

/* One unpacked row of weights: value = d × w + m, with a d for each 16 inputs. */
struct linear_row {
    struct types_form form;
    int8_t *w;
    float *d;
    float *m;
};

static void linear_unpack(const struct weight *weight, uint32_t row, struct linear_row *out)
{
    struct types_part part;
    out->form = types_form(weight->type->id);
    for (uint32_t b = 0; b < weight->cols / TABLE_BLOCK; b++) {
        types_take(weight->type, k_weight_at_ref(weight, row), b, &part);
        memcpy(out->w + (size_t)b * TABLE_BLOCK, part.w, sizeof part.w);
        for (int i = 0; i < 2; i++)
            out->d[2 * b + (uint32_t)i] = half_to_float(part.d) * (float)part.scales[i];
        out->m[b] = half_to_float(part.m) * (float)part.min;
    }
}

/* Sums 16 products. */
static int32_t linear_dot_half(const int8_t *w, const int8_t *q)
{
    int32_t sum = 0;
    for (int i = 0; i < TABLE_BLOCK / 2; i++)
        sum += (int16_t)((int16_t)w[i] * (int16_t)q[i]); /* |product| ≤ 128 × 127 */
    return sum;
}

static float linear_dot(const struct linear_row *row, const struct ref_int8_block *x,
                        uint32_t blocks)
{
    float y = 0;
    for (uint32_t b = 0; b < blocks; b++) {
        const int8_t *w = row->w + (size_t)b * TABLE_BLOCK;
        int32_t dot = linear_dot_half(w, x[b].q);
        if (types_is_split(row->form)) {
            y = fmaf((float)dot, row->d[2 * b] * x[b].scale, y);
            dot = 0;
        }
        dot += linear_dot_half(w + TABLE_BLOCK / 2, x[b].q + TABLE_BLOCK / 2);
        y = fmaf((float)dot, row->d[2 * b + 1] * x[b].scale, y);
        if (row->form.has_m)
            y = fmaf(row->m[b], x[b].scale * (float)x[b].sum, y);
    }
    return y;
}

void k_weight_row_ref_int8(const struct weight *weight, uint32_t row, float *out)
{
    k_weight_row_ref(weight, row, out);
    for (uint32_t i = 0; i < weight->cols && weight->type->id == TENSOR_TYPE_bf16; i++)
        out[i] = half_bf16_to_float(half_bf16_from_float(out[i]));
}

static float linear_dot_f32(const float *w, const float *x, uint32_t n)
{
    float y = 0;
    for (uint32_t i = 0; i < n; i++)
        y = fmaf(w[i], x[i], y);
    return y;
}

static float linear_dot_bf16(const float *w, const float *x, uint32_t n)
{
    float y = 0;
    for (uint32_t i = 0; i < n; i += 2) {
        if (i + 1 < n)
            y = fmaf(w[i + 1], half_bf16_to_float(half_bf16_from_float(x[i + 1])), y);
        y = fmaf(w[i], half_bf16_to_float(half_bf16_from_float(x[i])), y);
    }
    return y;
}

void k_linear_ref_int8(const struct table_linear *call)
{
    const struct weight *weight = call->weight;
    const uint32_t blocks = weight->cols / TABLE_BLOCK;
    const bool is_int8 = k_input_wanted_ref_int8(weight->type);
    const bool is_bf16 = weight->type->id == TENSOR_TYPE_bf16;
    /* Scratch of cols floats: the row as floats, or cols codes and 3 × blocks factors. */
    struct linear_row row = {.w = call->scratch};
    row.d = (float *)(void *)((char *)call->scratch + (size_t)blocks * TABLE_BLOCK);
    row.m = row.d + 2 * (size_t)blocks;
    const uint32_t begin = call->group_begin * TABLE_GROUP;
    uint32_t end = call->group_end * TABLE_GROUP;
    if (end > weight->rows)
        end = weight->rows;
    for (uint32_t o = begin; o < end; o++) {
        if (is_int8)
            linear_unpack(weight, o, &row);
        else
            k_weight_row_ref_int8(weight, o, call->scratch);
        for (uint32_t r = 0; r < call->rows; r++) {
            float *y = call->y + r * call->y_stride + (o - begin);
            const struct ref_int8_block *codes = call->input;
            const float *x = call->x + (size_t)r * weight->cols;
            float dot = is_int8   ? linear_dot(&row, codes + (size_t)r * blocks, blocks)
                        : is_bf16 ? linear_dot_bf16(call->scratch, x, weight->cols)
                                  : linear_dot_f32(call->scratch, x, weight->cols);
            if (call->bias != NULL)
                dot += call->bias[o - begin];
            *y = call->accumulate ? *y + dot : dot;
        }
    }
}
