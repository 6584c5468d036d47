#include "kernels/types/types.h"

void type_q4_0_take(const unsigned char *block, uint32_t part, struct types_part *out)
{
    (void)part;
    types_plain(block, NULL, out);
    types_nibbles(block + 2, 0, 8, out->w);
}
