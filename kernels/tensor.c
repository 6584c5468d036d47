#include "kernels/tensor.h"

#include "kernels/cpu/types/types.h"

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
#include "kernels/tensor_types.def"

static const struct tensor_type_info tensor_types[] = {
#define TENSOR_TYPE(name, id, elements, bytes, bits, has_m)                                        \
    {#name, (id), (elements), (bytes), tensor_##name##_to_f32, type_##name##_take},
#define TENSOR_FLOAT(name, id, bytes) {#name, (id), 1, (bytes), type_##name##_to_f32, NULL},
#include "kernels/tensor_types.def"
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
#include "kernels/tensor_types.def"
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
