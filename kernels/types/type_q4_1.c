#include "kernels/types/types.h"

void type_q4_1_take(const unsigned char *block, uint32_t part, struct types_part *out)
{
    (void)part;
    types_plain(block, block + 2, out);
    types_nibbles(block + 4, 0, 0, out->w);
}
