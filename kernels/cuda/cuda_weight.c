#include "kernels/cuda/cuda_weight.h"

#include <math.h>

#include "kernels/cpu/types/types.h"
#include "kernels/half.h"

enum { WEIGHT_SCALE_EXPONENT = 15 };

enum status cuda_weight_form(struct cuda_weight_form *out, const struct tensor_type_info *type,
                             uint32_t rows, uint32_t cols)
{
    const struct types_form form = types_form(type->id);
    *out = (struct cuda_weight_form){
        .bits = form.bits == 0   ? 16
                : form.bits == 4 ? 4
                                 : 8,
        .is_bf16 = type->id == TENSOR_TYPE_bf16,
        .has_m = form.has_m,
        .is_split = form.bits != 0 && types_is_split(form),
        .tiles = (rows + CUDA_WEIGHT_TILE - 1) / CUDA_WEIGHT_TILE,
        .parts = (cols + CUDA_WEIGHT_PART - 1) / CUDA_WEIGHT_PART,
    };
    if (type->id == TENSOR_TYPE_f32)
        FAIL(STATUS_UNSUPPORTED, "CUDA kernels have no path for f32 weights");
    out->codes_bytes = (size_t)CUDA_WEIGHT_TILE * CUDA_WEIGHT_PART * out->bits / 8;
    if (form.bits != 0)
        out->factors_bytes =
            (size_t)CUDA_WEIGHT_TILE * (out->is_split ? 2 : 1) * (out->has_m ? 4 : 2);
    const size_t count = (size_t)out->tiles * out->parts;
    out->factors_at = CUDA_WEIGHT_HEAD + count * out->codes_bytes;
    out->bytes = out->factors_at + count * out->factors_bytes;
    return STATUS_OK;
}

static const char *weight_row(const struct tensor *tensor, uint32_t row)
{
    const struct tensor_type_info *type = tensor->type;
    return (const char *)tensor->data +
           (size_t)row * (tensor->dims[0] / type->block_elements) * type->block_bytes;
}

static float weight_greater(float max, float value)
{
    return isfinite(value) && fabsf(value) > max ? fabsf(value) : max;
}

float cuda_weight_scale(const struct tensor *tensor)
{
    float max = 0;
    int exponent;
    if (tensor->type->take == NULL)
        return 1;
    for (uint32_t row = 0; row < tensor->dims[1]; row++)
        for (uint32_t p = 0; p < tensor->dims[0] / TYPES_PART; p++) {
            struct types_part part;
            types_take(tensor->type, weight_row(tensor, row), p, &part);
            const float d = half_to_float(part.d);
            max = weight_greater(max, d * (float)part.scales[0]);
            max = weight_greater(max, d * (float)part.scales[1]);
            max = weight_greater(max, half_to_float(part.m) * (float)part.min);
        }
    if (max == 0)
        return 1;
    (void)frexpf(max, &exponent); /* max < 2^exponent */
    return ldexpf(1, WEIGHT_SCALE_EXPONENT - exponent);
}

/* One row's 16-bit floats of one part. */
static void pack_floats(const struct tensor *tensor, uint32_t row, uint32_t part, uint32_t at,
                        unsigned char *codes)
{
    const char *from = weight_row(tensor, row) + (size_t)part * TYPES_PART * 2;
    const uint64_t left = tensor->dims[0] - (uint64_t)part * TYPES_PART;
    for (uint32_t col = 0; col < TYPES_PART && col < left; col++)
        memcpy(codes + cuda_weight_place(16, at, col), from + (size_t)col * 2, 2);
}

static void pack_factor(const struct cuda_weight_form *form, float a, float b, uint32_t index,
                        unsigned char *factors)
{
    const uint16_t pair[2] = {half_from_float(a), half_from_float(b)};
    const size_t bytes = form->has_m ? 4 : 2;
    memcpy(factors + index * bytes, pair, bytes);
}

static void pack_codes(const struct cuda_weight_form *form, const struct tensor *tensor,
                       float scale, uint32_t row, uint32_t p, unsigned char *codes,
                       unsigned char *factors)
{
    const uint32_t at = row % CUDA_WEIGHT_TILE;
    const int offset = form->bits == 4 ? (form->has_m ? 0 : 8) : 128;
    struct types_part part;
    types_take(tensor->type, weight_row(tensor, row), p, &part);
    for (uint32_t col = 0; col < TYPES_PART; col++) {
        const uint32_t code = (uint32_t)(part.w[col] + offset);
        const uint32_t place = cuda_weight_place(form->bits, at, col);
        if (form->bits == 8)
            codes[place] = (unsigned char)code;
        else
            codes[place / 2] |= (unsigned char)(code << 4 * (place % 2));
    }
    const float d = half_to_float(part.d) * scale;
    const float b = half_to_float(part.m) * (float)part.min * scale;
    for (uint32_t step = 0; step < (form->is_split ? 2u : 1u); step++)
        pack_factor(form, d * (float)part.scales[step], b, step * CUDA_WEIGHT_TILE + at, factors);
}

void cuda_weight_pack(const struct cuda_weight_form *form, const struct tensor *tensor, float scale,
                      uint32_t begin, uint32_t end, void *codes, void *factors)
{
    const size_t count = (size_t)(end - begin) * form->parts;
    memset(codes, 0, count * form->codes_bytes);
    memset(factors, 0, count * form->factors_bytes);
    for (uint32_t row = begin * CUDA_WEIGHT_TILE;
         row < end * CUDA_WEIGHT_TILE && row < tensor->dims[1]; row++)
        for (uint32_t part = 0; part < form->parts; part++) {
            const size_t index = (size_t)(row / CUDA_WEIGHT_TILE - begin) * form->parts + part;
            unsigned char *to = (unsigned char *)codes + index * form->codes_bytes;
            if (form->bits == 16)
                pack_floats(tensor, row, part, row % CUDA_WEIGHT_TILE, to);
            else
                pack_codes(form, tensor, scale, row, part, to,
                           (unsigned char *)factors + index * form->factors_bytes);
        }
}
