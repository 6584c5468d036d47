#include "kernels/cpu/packed/packed.h"

size_t packed_weight_bytes(const struct tensor_type_info *type, uint32_t rows, uint32_t cols)
{
    return packed_group_bytes(type, cols) * table_groups(rows);
}

/* Returns byte k of a lane's 32 in a plane of vectors [16 r][4]. */
static unsigned char *weight_byte(unsigned char *vectors, uint32_t lane, uint32_t k)
{
    return vectors + (size_t)(k / 4) * 64 + 4 * lane + k % 4;
}

/* Writes a lane's four bytes in each of the first `count` vectors of a plane. */
static inline __attribute__((always_inline)) void
weight_put_words(const uint32_t *words, uint32_t count, uint32_t lane, unsigned char *plane)
{
    for (uint32_t v = 0; v < count; v++)
        memcpy(plane + (size_t)v * 64 + 4 * lane, &words[v], sizeof words[v]);
}

/* Writes four codes at a time, w[v] of packed.h. `form` is a constant in every call. */
static inline __attribute__((always_inline)) void
weight_put_codes(const struct types_form form, const int8_t *w, uint32_t lane, unsigned char *unit)
{
    const uint32_t bits = form.bits - 4; /* bits of a code beyond its nibble */
    unsigned char codes[TYPES_PART];
    uint32_t words[TYPES_PART / 4];
    uint32_t high[2] = {0};
    for (uint32_t k = 0; k < TYPES_PART; k++)
        codes[k] = (unsigned char)(w[k] + (int)types_offset(form));
    memcpy(words, codes, sizeof words);
    if (form.bits == 8) {
        weight_put_words(words, 8, lane, unit);
        return;
    }
    for (uint32_t v = 0; v < 8; v++)
        high[bits * v / 8] |= (words[v] >> 4 & ((1u << bits) - 1) * 0x01010101u) << bits * v % 8;
    for (uint32_t v = 0; v < 4; v++)
        words[v] = (words[v] & 0x0f0f0f0fu) | (words[4 + v] & 0x0f0f0f0fu) << 4;
    weight_put_words(words, 4, lane, unit);
    weight_put_words(high, bits, lane, unit + 256);
}

static void weight_get_codes(struct types_form form, unsigned char *unit, uint32_t lane, int8_t *w)
{
    for (uint32_t k = 0; k < TYPES_PART; k++) {
        uint32_t code = *weight_byte(unit, lane, form.bits == 8 ? k : k % 16);
        const uint32_t v = k / 4;
        if (form.bits < 8)
            code = code >> (k < 16 ? 0 : 4) & 15;
        if (form.bits == 5)
            code |= ((uint32_t)*weight_byte(unit + 256, lane, k % 4) >> v & 1) << 4;
        if (form.bits == 6)
            code |=
                ((uint32_t)*weight_byte(unit + 256 + 64 * (v / 4), lane, k % 4) >> 2 * (v % 4) & 3)
                << 4;
        w[k] = (int8_t)((int)code - (int)types_offset(form));
    }
}

/* Returns the address of unit u of a group, and of the factors d and m that it uses. */
static inline __attribute__((always_inline)) unsigned char *
weight_unit(const struct types_form form, unsigned char *group, uint32_t u, unsigned char **factors)
{
    const size_t unit_bytes = packed_unit_bytes(form);
    if (!types_has_scales(form)) {
        *factors = group + u * unit_bytes + packed_code_bytes(form);
        return group + u * unit_bytes;
    }
    *factors = group + u / PACKED_UNITS * (PACKED_UNITS * unit_bytes + packed_factor_bytes(form));
    return *factors + packed_factor_bytes(form) + u % PACKED_UNITS * unit_bytes;
}

static inline __attribute__((always_inline)) void weight_put(const struct types_form form,
                                                             const struct types_part *part,
                                                             uint32_t lane, unsigned char *unit,
                                                             unsigned char *factors)
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

/* Returns the offset of input i of a lane in a group of floats; `id` is a constant in every call.
 */
static inline __attribute__((always_inline)) size_t
weight_float_at(const uint32_t id, const size_t bytes, uint32_t i, uint32_t lane)
{
    if (id == TENSOR_TYPE_bf16)
        return ((i / 2 * (size_t)TABLE_GROUP + lane) * 2 + i % 2) * bytes;
    return (i * (size_t)TABLE_GROUP + lane) * bytes;
}

static inline __attribute__((always_inline)) void weight_put_float(const uint32_t id,
                                                                   const size_t bytes,
                                                                   const unsigned char *from,
                                                                   unsigned char *to)
{
    memcpy(to, from, bytes);
    if (id == TENSOR_TYPE_bf16) {
        const uint16_t value = half_bf16_normal(types_half_at(from));
        memcpy(to, &value, sizeof value);
    }
}

/* Packs one row into its lane. `form` and the `bytes` of a block are constants in every call, so
 * that no shift, division or branch remains at run time: every weight of a file passes through
 * here. */
static inline __attribute__((always_inline)) void
weight_pack_row(const struct types_form form, const uint32_t id, const size_t bytes,
                const struct tensor *tensor, uint64_t row, unsigned char *group)
{
    const uint32_t cols = (uint32_t)tensor->dims[0];
    const uint32_t lane = row % TABLE_GROUP;
    const uint32_t parts = form.elements / TYPES_PART; /* parts in a block of codes */
    const unsigned char *from =
        (const unsigned char *)tensor->data + row * (cols / form.elements * bytes);
    for (uint32_t i = 0; i < cols && form.bits == 0; i++)
        weight_put_float(id, bytes, from + i * bytes, group + weight_float_at(id, bytes, i, lane));
    for (uint32_t u = 0; form.bits > 0 && u < cols / TYPES_PART; u++) {
        struct types_part part;
        unsigned char *factors;
        unsigned char *unit = weight_unit(form, group, u, &factors);
        tensor->type->take(from + u / parts * bytes, u % parts, &part);
        weight_put(form, &part, lane, unit, factors);
    }
}

/* Packs rows [begin, end) of one group. */
static void weight_pack_rows(const struct tensor *tensor, uint64_t begin, uint64_t end,
                             unsigned char *group)
{
    switch (tensor->type->id) {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    case id:                                                                                       \
        for (uint64_t row = begin; row < end; row++)                                               \
            weight_pack_row((struct types_form){elements, bits, has_m}, id, bytes, tensor, row,    \
                            group);                                                                \
        break;
#include "kernels/types/tensor_types.def"
    default:
        break;
    }
}

void packed_weight_pack(const struct tensor *tensor, uint32_t group_begin, uint32_t group_end,
                        void *packed)
{
    const uint32_t cols = (uint32_t)tensor->dims[0];
    const size_t group_bytes = packed_group_bytes(tensor->type, cols);
    for (uint32_t g = group_begin; g < group_end; g++) {
        unsigned char *group = (unsigned char *)packed + g * group_bytes;
        uint64_t begin = (uint64_t)g * TABLE_GROUP;
        uint64_t end = begin + TABLE_GROUP;
        if (end > tensor->dims[1])
            end = tensor->dims[1];
        if (end - begin < TABLE_GROUP || packed_cols(tensor->type, cols) > cols)
            /* lanes beyond the last output; the missing half of a pair */
            memset(group, 0, group_bytes);
        weight_pack_rows(tensor, begin, end, group);
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
        type->to_f32(group + weight_float_at(type->id, bytes, i, lane), out + i, 1);
    for (uint32_t u = 0; u < weight->cols / TYPES_PART && form.bits > 0; u++) {
        struct types_part part;
        unsigned char *factors;
        unsigned char *unit = weight_unit(form, group, u, &factors);
        weight_get(form, unit, factors, lane, &part);
        types_part_to_f32(&part, out + (size_t)u * TYPES_PART);
    }
}
