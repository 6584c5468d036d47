#include "kernels/types/types.h"

void type_q4_k_take(const unsigned char *block, uint32_t part, struct types_part *out)
{
    const unsigned char *nibbles = block + 16 + 32 * (part / 2);
    types_scales(block, part, out);
    for (uint32_t i = 0; i < TYPES_PART; i++)
        out->w[i] = (int8_t)(nibbles[i] >> 4 * (part % 2) & 15);
}
