#include "kernels/cuda/cuda_weight.h"

#include <math.h>

#include "kernels/types/half.h"
#include "kernels/types/types.h"

enum { WEIGHT_SCALE_EXPONENT = 15 };

enum status cuda_weight_form(struct cuda_weight_form *out, const struct tensor_type_info *type,
                             uint32_t rows, uint32_t cols, uint32_t group)
{
    const struct types_form form = types_form(type->id);
    const uint32_t group_parts = group / CUDA_WEIGHT_PART;
    *out = (struct cuda_weight_form){
        .bits = form.bits == 0   ? type->block_bytes * 8
                : form.bits == 4 ? 4
                                 : 8,
        .is_bf16 = type->id == TENSOR_TYPE_bf16,
        .has_m = form.has_m,
        .is_split = form.bits != 0 && types_is_split(form),
        .group = group == 0 ? 1 : group_parts,
        .tiles = (rows + CUDA_WEIGHT_TILE - 1) / CUDA_WEIGHT_TILE,
        .parts = (cols + CUDA_WEIGHT_PART - 1) / CUDA_WEIGHT_PART,
    };
    if (group != 0 && (group != CUDA_WEIGHT_GROUP || out->bits != 4 || !out->has_m))
        FAIL(STATUS_UNSUPPORTED, "the kernels for CUDA do not support %s weights in groups of %u",
             type->name, group);
    const uint32_t whole = group == 0 ? 2 : group_parts;
    out->parts = (out->parts + whole - 1) / whole * whole;
    out->codes_bytes = (size_t)CUDA_WEIGHT_TILE * CUDA_WEIGHT_PART * out->bits / 8;
    if (form.bits != 0)
        out->factors_bytes =
            (size_t)CUDA_WEIGHT_TILE * (out->is_split ? 2 : 1) * (out->has_m ? 4 : 2);
    const size_t count = (size_t)out->tiles * out->parts;
    out->factors_at = CUDA_WEIGHT_HEAD + count * out->codes_bytes;
    out->bytes = out->factors_at + count / out->group * out->factors_bytes;
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

float cuda_weight_max(const struct tensor *tensor, uint32_t begin, uint32_t end)
{
    float max = 0;
    if (tensor->type->take == NULL)
        return 0;
    for (uint32_t row = begin; row < end; row++)
        for (uint32_t p = 0; p < tensor->dims[0] / TYPES_PART; p++) {
            struct types_part part;
            types_take(tensor->type, weight_row(tensor, row), p, &part);
            const float d = half_to_float(part.d);
            max = weight_greater(max, d * (float)part.scales[0]);
            max = weight_greater(max, d * (float)part.scales[1]);
            max = weight_greater(max, half_to_float(part.m) * (float)part.min);
        }
    return max;
}

float cuda_weight_scale(float max)
{
    int exponent;
    if (max == 0)
        return 1;
    (void)frexpf(max, &exponent); /* max < 2^exponent */
    return ldexpf(1, WEIGHT_SCALE_EXPONENT - exponent);
}

static void pack_factor(const struct cuda_weight_form *form, float a, float b, unsigned char *to)
{
    const uint16_t pair[2] = {half_from_float(a), half_from_float(b)};
    memcpy(to, pair, form->has_m ? 4 : 2);
}

/* Packs part p of a row; `codes` and `factors` are those of the row's tile. */
static void pack_part(const struct cuda_weight_form *form, const struct tensor *tensor, float scale,
                      uint32_t row, uint32_t p, unsigned char *codes, unsigned char *factors)
{
    const uint32_t at = row % CUDA_WEIGHT_TILE;
    const uint32_t begin = p * CUDA_WEIGHT_PART;
    const int offset = form->bits == 4 ? (form->has_m ? 0 : 8) : 128;
    struct types_part part;
    types_take(tensor->type, weight_row(tensor, row), p, &part);
    for (uint32_t col = 0; col < TYPES_PART; col++) {
        const uint32_t code = (uint32_t)(part.w[col] + offset);
        const size_t place = cuda_weight_place(form, at, begin + col);
        if (form->bits == 8)
            codes[place] = (unsigned char)code;
        else
            codes[place / 2] |= (unsigned char)(code << 4 * (place % 2));
    }
    const float d = half_to_float(part.d) * scale;
    const float b = half_to_float(part.m) * (float)part.min * scale;
    for (uint32_t step = 0; step < (form->is_split ? 2u : 1u); step++)
        pack_factor(form, d * (float)part.scales[step], b,
                    factors + cuda_weight_factor(form, at, begin + step * CUDA_WEIGHT_STEP));
}

void cuda_weight_pack(const struct cuda_weight_form *form, const struct tensor *tensor, float scale,
                      uint32_t begin, uint32_t end, void *codes, void *factors)
{
    const size_t codes_each = form->parts * form->codes_bytes; /* of a tile */
    const size_t factors_each = form->parts / form->group * form->factors_bytes;
    const uint32_t cols = (uint32_t)tensor->dims[0];
    memset(codes, 0, (end - begin) * codes_each);
    memset(factors, 0, (end - begin) * factors_each);
    for (uint32_t row = begin * CUDA_WEIGHT_TILE;
         row < end * CUDA_WEIGHT_TILE && row < tensor->dims[1]; row++) {
        const uint32_t tile = row / CUDA_WEIGHT_TILE - begin;
        unsigned char *to = (unsigned char *)codes + tile * codes_each;
        if (form->bits >= 16)
            memcpy(to + cuda_weight_place(form, row % CUDA_WEIGHT_TILE, 0), weight_row(tensor, row),
                   (size_t)cols * form->bits / 8);
        for (uint32_t p = 0; p < cols / CUDA_WEIGHT_PART && form->bits < 16; p++)
            pack_part(form, tensor, scale, row, p, to,
                      (unsigned char *)factors + tile * factors_each);
    }
}

uint32_t cuda_weight_segment(uint32_t pairs)
{
    return (pairs + 15) / 16 * 2;
}

uint32_t cuda_weight_splits(uint32_t blocks, uint32_t processors, uint32_t segments,
                            uint64_t segment_bytes, uint64_t bytes)
{
    if (blocks == 0 || blocks >= processors || segment_bytes * segments > bytes)
        return 1;
    uint32_t splits = (processors + blocks - 1) / blocks;
    if (splits > segments)
        splits = segments;
    const uint32_t each = (segments + splits - 1) / splits;
    return (segments + each - 1) / each;
}
