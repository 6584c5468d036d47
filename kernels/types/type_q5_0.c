#include "kernels/types/types.h"

void type_q5_0_take(const unsigned char *block, uint32_t part, struct types_part *out)
{
    uint32_t fifths;
    (void)part;
    memcpy(&fifths, block + 2, sizeof fifths);
    types_plain(block, NULL, out);
    types_nibbles(block + 6, fifths, 16, out->w);
}
