#include "kernels/types/types.h"

void type_q5_1_take(const unsigned char *block, uint32_t part, struct types_part *out)
{
    uint32_t fifths;
    (void)part;
    memcpy(&fifths, block + 4, sizeof fifths);
    types_plain(block, block + 2, out);
    types_nibbles(block + 8, fifths, 0, out->w);
}
