#include "kernels/cpu/types/types.h"

#include "kernels/half.h"

void type_q8_0_to_f32(const void *row, float *out, uint32_t n)
{
    const unsigned char *block = row;
    for (uint32_t begin = 0; begin < n; begin += 32, block += 34) {
        float d = half_to_float(types_half_at(block));
        for (uint32_t i = 0; i < 32; i++)
            out[begin + i] = d * (float)(int8_t)block[2 + i];
    }
}
