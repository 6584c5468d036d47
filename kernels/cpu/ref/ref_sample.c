#include "kernels/cpu/ref/ref.h"

#include "kernels/cpu/fixed_math.h"

float k_row_exp_ref(const float *x, uint32_t count, float max, float scale, float *out)
{
    float lanes[16] = {0};
    for (uint32_t i = 0; i < count; i++) {
        out[i] = fixed_math_exp((x[i] - max) * scale);
        lanes[i % 16] += out[i];
    }
    return fixed_math_fold16(lanes);
}

uint32_t k_row_above_ref(const float *x, uint32_t count, float least, uint32_t *ids)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        ids[found] = i;
        found += x[i] >= least;
    }
    return found;
}

uint32_t k_row_noise_ref(const struct row_noise_args *args, uint32_t *ids)
{
    uint32_t found = 0;
    for (uint32_t i = args->begin; i < args->end; i++) {
        ids[found] = i;
        found += kernels_row_noise_reaches(args, i);
    }
    return found;
}
