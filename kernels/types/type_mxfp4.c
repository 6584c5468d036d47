#include "kernels/types/half.h"
#include "kernels/types/types.h"

/* 2^(e − 128) is a half, exactly, for these e: 2^-24 to 2^15. */
enum { MXFP4_LEAST = 104, MXFP4_NORMAL = 114 };

/* Returns 2^(e − 128) as a half; 0 for an e below MXFP4_LEAST, infinity above TYPES_MXFP4_MOST. */
static uint16_t mxfp4_factor(unsigned char e)
{
    if (e < MXFP4_LEAST)
        return 0;
    if (e < MXFP4_NORMAL) /* subnormal: a bit of the mantissa */
        return (uint16_t)(1u << (e - MXFP4_LEAST));
    return (uint16_t)((e > TYPES_MXFP4_MOST ? 31u : e - MXFP4_NORMAL + 1u) << 10);
}

void type_mxfp4_take(const unsigned char *block, uint32_t part, struct types_part *out)
{
    static const int8_t values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    (void)part;
    out->d = mxfp4_factor(block[0]);
    out->m = 0x8000;
    out->scales[0] = out->scales[1] = out->min = 1;
    for (uint32_t i = 0; i < 16; i++) {
        out->w[i] = values[block[1 + i] & 15];
        out->w[16 + i] = values[block[1 + i] >> 4];
    }
}
