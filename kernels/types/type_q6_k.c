#include "kernels/types/types.h"

void type_q6_k_take(const unsigned char *block, uint32_t part, struct types_part *out)
{
    const uint32_t p = part % 4; /* part within its half of the block */
    const unsigned char *nibbles = block + 64 * (part / 4) + 32 * (p % 2);
    const unsigned char *sixths = block + 128 + 32 * (part / 4);
    types_plain(block + 208, NULL, out);
    memcpy(out->scales, block + 192 + 2 * part, sizeof out->scales);
    for (uint32_t i = 0; i < TYPES_PART; i++) {
        int code = (nibbles[i] >> 4 * (p / 2) & 15) | (sixths[i] >> 2 * p & 3) << 4;
        out->w[i] = (int8_t)(code - 32);
    }
}
