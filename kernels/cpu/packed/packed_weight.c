#include "kernels/cpu/packed/packed.h"

size_t packed_weight_bytes(const struct tensor_type_info *type, uint32_t rows, uint32_t cols)
{
    return packed_group_bytes(type, cols) * table_groups(rows);
}

/* Byte k of a lane's 32 in a plane of vectors [16 r][4]. */
static unsigned char *weight_byte(unsigned char *vectors, uint32_t lane, uint32_t k)
{
    return vectors + (size_t)(k / 4) * 64 + 4 * lane + k % 4;
}

static void weight_put_codes(struct types_form form, const int8_t *w, uint32_t lane,
                             unsigned char *unit)
{
    for (uint32_t k = 0; k < TYPES_PART; k++) {
        uint32_t code = (uint32_t)(w[k] + (int)types_offset(form)) & 255;
        if (form.bits == 8) {
            *weight_byte(unit, lane, k) = (unsigned char)code;
            continue;
        }
        unsigned char *nibble = weight_byte(unit, lane, k % 16);
        *nibble = (unsigned char)(*nibble | (code & 15) << (k < 16 ? 0 : 4));
        const uint32_t v = k / 4;
        if (form.bits == 5)
            *weight_byte(unit + 256, lane, k % 4) |= (unsigned char)(code >> 4 << v);
        if (form.bits == 6)
            *weight_byte(unit + 256 + 64 * (v / 4), lane, k % 4) |=
                (unsigned char)(code >> 4 << 2 * (v % 4));
    }
}

static void weight_get_codes(struct types_form form, unsigned char *unit, uint32_t lane, int8_t *w)
{
    for (uint32_t k = 0; k < TYPES_PART; k++) {
        uint32_t code = *weight_byte(unit, lane, form.bits == 8 ? k : k % 16);
        const uint32_t v = k / 4;
        if (form.bits < 8)
            code = code >> (k < 16 ? 0 : 4) & 15;
        if (form.bits == 5)
            code |= (*weight_byte(unit + 256, lane, k % 4) >> v & 1u) << 4;
        if (form.bits == 6)
            code |= (*weight_byte(unit + 256 + 64 * (v / 4), lane, k % 4) >> 2 * (v % 4) & 3u) << 4;
        w[k] = (int8_t)((int)code - (int)types_offset(form));
    }
}

/* Where unit u of a group lies, and the factors d and m that it uses. */
static unsigned char *weight_unit(struct types_form form, unsigned char *group, uint32_t u,
                                  unsigned char **factors)
{
    const size_t unit_bytes = packed_unit_bytes(form);
    if (!types_has_scales(form)) {
        *factors = group + u * unit_bytes + packed_code_bytes(form);
        return group + u * unit_bytes;
    }
    *factors = group + u / PACKED_UNITS * (PACKED_UNITS * unit_bytes + packed_factor_bytes(form));
    return *factors + packed_factor_bytes(form) + u % PACKED_UNITS * unit_bytes;
}

static void weight_put(struct types_form form, const struct types_part *part, uint32_t lane,
                       unsigned char *unit, unsigned char *factors)
{
    unsigned char *scales = unit + packed_code_bytes(form);
    weight_put_codes(form, part->w, lane, unit);
    memcpy(factors + 2 * lane, &part->d, 2);
    if (form.has_m)
        memcpy(factors + 32 + 2 * lane, &part->m, 2);
    if (types_has_scales(form)) {
        scales[lane] = (unsigned char)part->scales[0];
        scales[16 + lane] = (unsigned char)(form.has_m ? part->min : part->scales[1]);
    }
}

static void weight_get(struct types_form form, unsigned char *unit, const unsigned char *factors,
                       uint32_t lane, struct types_part *part)
{
    const unsigned char *scales = unit + packed_code_bytes(form);
    weight_get_codes(form, unit, lane, part->w);
    types_plain(factors + 2 * lane, form.has_m ? factors + 32 + 2 * lane : NULL, part);
    if (!types_has_scales(form))
        return;
    part->scales[0] = part->scales[1] = (int8_t)scales[lane];
    if (form.has_m)
        part->min = (int8_t)scales[16 + lane];
    else
        part->scales[1] = (int8_t)scales[16 + lane];
}

static void weight_pack_row(const struct tensor *tensor, const unsigned char *row, uint32_t lane,
                            unsigned char *group)
{
    const struct tensor_type_info *type = tensor->type;
    const struct types_form form = types_form(type->id);
    const uint32_t cols = (uint32_t)tensor->dims[0];
    const size_t bytes = type->block_bytes;
    for (uint32_t i = 0; i < cols && form.bits == 0; i++)
        memcpy(group + (i * (size_t)TABLE_GROUP + lane) * bytes, row + i * bytes, bytes);
    for (uint32_t u = 0; u < cols / TYPES_PART && form.bits > 0; u++) {
        struct types_part part;
        unsigned char *factors;
        unsigned char *unit = weight_unit(form, group, u, &factors);
        types_take(type, row, u, &part);
        weight_put(form, &part, lane, unit, factors);
    }
}

void packed_weight_pack(const struct tensor *tensor, uint32_t group_begin, uint32_t group_end,
                        void *packed)
{
    const struct tensor_type_info *type = tensor->type;
    const uint32_t cols = (uint32_t)tensor->dims[0];
    const size_t group_bytes = packed_group_bytes(type, cols);
    const size_t row_bytes = (size_t)(cols / type->block_elements) * type->block_bytes;
    for (uint32_t g = group_begin; g < group_end; g++) {
        unsigned char *group = (unsigned char *)packed + g * group_bytes;
        memset(group, 0, group_bytes); /* lanes beyond the last output */
        for (uint32_t lane = 0; lane < TABLE_GROUP; lane++) {
            uint64_t row = (uint64_t)g * TABLE_GROUP + lane;
            if (row < tensor->dims[1])
                weight_pack_row(tensor, (const unsigned char *)tensor->data + row * row_bytes, lane,
                                group);
        }
    }
}

void packed_weight_row(const struct weight *weight, uint32_t row, float *out)
{
    const struct tensor_type_info *type = weight->type;
    const struct types_form form = types_form(type->id);
    const uint32_t lane = row % TABLE_GROUP;
    const size_t bytes = type->block_bytes;
    unsigned char *group = (unsigned char *)weight->packed +
                           row / TABLE_GROUP * packed_group_bytes(type, weight->cols);
    for (uint32_t i = 0; i < weight->cols && form.bits == 0; i++)
        type->to_f32(group + (i * (size_t)TABLE_GROUP + lane) * bytes, out + i, 1);
    for (uint32_t u = 0; u < weight->cols / TYPES_PART && form.bits > 0; u++) {
        struct types_part part;
        unsigned char *factors;
        unsigned char *unit = weight_unit(form, group, u, &factors);
        weight_get(form, unit, factors, lane, &part);
        types_part_to_f32(&part, out + (size_t)u * TYPES_PART);
    }
}
