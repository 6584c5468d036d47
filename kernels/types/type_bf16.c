#include "kernels/types/types.h"

#include "kernels/types/half.h"

void type_bf16_to_f32(const void *row, float *out, uint32_t n)
{
    const unsigned char *bytes = row;
    for (uint32_t i = 0; i < n; i++)
        out[i] = half_bits_float((uint32_t)types_half_at(bytes + 2 * (size_t)i) << 16);
}
