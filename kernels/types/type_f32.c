#include "kernels/types/types.h"

void type_f32_to_f32(const void *row, float *out, uint32_t n)
{
    memcpy(out, row, (size_t)n * sizeof *out);
}
