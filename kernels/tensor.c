#include "kernels/tensor.h"

#include "kernels/cpu/types/types.h"

static const struct tensor_type_info tensor_types[] = {
#define TENSOR_TYPE(name, id, elements, bytes)                                                     \
    {#name, (id), (elements), (bytes), type_##name##_to_f32},
#include "kernels/tensor_types.def"
#undef TENSOR_TYPE
};

const struct tensor_type_info *tensor_type_info(uint32_t id)
{
    for (size_t i = 0; i < sizeof tensor_types / sizeof tensor_types[0]; i++)
        if (tensor_types[i].id == id)
            return &tensor_types[i];
    return NULL;
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
