#include "kernels/cpu/types/types.h"

#include "kernels/half.h"

void type_q4_1_to_f32(const void *row, float *out, uint32_t n)
{
    const unsigned char *block = row;
    for (uint32_t begin = 0; begin < n; begin += 32, block += 20) {
        float d = half_to_float(types_half_at(block));
        float m = half_to_float(types_half_at(block + 2));
        for (uint32_t i = 0; i < 16; i++) {
            unsigned nibbles = block[4 + i];
            out[begin + i] = d * (float)(nibbles & 15) + m;
            out[begin + 16 + i] = d * (float)(nibbles >> 4) + m;
        }
    }
}
