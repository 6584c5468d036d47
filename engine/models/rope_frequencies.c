#include "engine/models/rope_frequencies.h"

#include <math.h>

/* The dimension that makes `turns` turns in the original context. */
static double yarn_dim(const struct model_rope *rope, uint32_t dims, float turns)
{
    const double positions = rope->original_context;
    return dims * log(positions / ((double)turns * 2 * M_PI)) / (2 * log((double)rope->base));
}

/* The range of pairs in which YaRN blends from frequencies that stay to divided ones. */
static void yarn_range(const struct model_rope *rope, uint32_t dims, double *low, double *high)
{
    *low = yarn_dim(rope, dims, rope->beta_fast);
    *high = yarn_dim(rope, dims, rope->beta_slow);
    if (rope->is_rounded) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    *low = fmax(*low, 0);
    *high = fmin(*high, (double)dims - 1);
    if (*low == *high)
        *high += 0.001; /* as transformers does, so that the slope is finite */
}

void rope_frequencies(const struct model_rope *rope, uint32_t dims, const float *factors,
                      float *out)
{
    double low = 0;
    double high = 1;
    if (rope->scaling == MODEL_ROPE_YARN)
        yarn_range(rope, dims, &low, &high);
    for (uint32_t i = 0; i < dims / 2; i++) {
        const double exponent = -2.0 * i / dims;
        double frequency = pow((double)rope->base, exponent);
        if (rope->scaling == MODEL_ROPE_LINEAR)
            frequency /= (double)rope->factor;
        if (rope->scaling == MODEL_ROPE_YARN) {
            const double slow = fmin(fmax((i - low) / (high - low), 0), 1);
            frequency = frequency / (double)rope->factor * slow + frequency * (1 - slow);
        }
        if (factors != NULL)
            frequency /= (double)factors[i];
        out[i] = (float)frequency;
    }
}

float rope_frequencies_yarn_factor(float factor)
{
    return factor > 1 ? (float)(0.1 * log((double)factor) + 1) : 1.0f;
}
