#include "kernels/types/types.h"

#include "kernels/types/half.h"

void type_f16_to_f32(const void *row, float *out, uint32_t n)
{
    const unsigned char *bytes = row;
    for (uint32_t i = 0; i < n; i++)
        out[i] = half_to_float(types_half_at(bytes + 2 * (size_t)i));
}
