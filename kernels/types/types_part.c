#include "kernels/types/types.h"

#include "kernels/types/half.h"

void types_part_to_f32(const struct types_part *part, float *out)
{
    const float d = half_to_float(part->d);
    const float m = half_to_float(part->m) * (float)part->min;
    for (uint32_t i = 0; i < TYPES_PART; i++)
        out[i] = d * (float)part->scales[i / 16] * (float)part->w[i] + m;
}
