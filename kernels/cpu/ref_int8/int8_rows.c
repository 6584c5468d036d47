#include "kernels/cpu/ref_int8/ref_int8.h"

#include "kernels/cpu/fixed_math.h"

float k_norm_scale_ref_int8(const float *x, uint32_t cols, float epsilon)
{
    float lanes[16] = {0};
    for (uint32_t i = 0; i < cols; i++)
        lanes[i % 16] = fmaf(x[i], x[i], lanes[i % 16]);
    return 1.0f / sqrtf(fixed_math_fold16(lanes) / (float)cols + epsilon);
}

void k_norm_ref_int8(const struct norm_args *args, uint32_t begin, uint32_t end)
{
    for (uint32_t r = begin; r < end; r++) {
        const float *x = args->x + (size_t)r * args->cols;
        float *y = args->y + (size_t)r * args->cols;
        float scale = k_norm_scale_ref_int8(x, args->cols, args->epsilon);
        for (uint32_t i = 0; i < args->cols; i++)
            y[i] = x[i] * scale * args->weight[i];
    }
}

void k_rope_ref_int8(const struct rope_args *args, uint32_t begin, uint32_t end)
{
    const uint32_t step = args->pairing == ROPE_INTERLEAVED ? 2 : 1;
    const uint32_t other = args->pairing == ROPE_INTERLEAVED ? 1 : args->pairs;
    for (uint32_t r = begin; r < end; r++)
        for (uint32_t h = 0; h < args->heads; h++) {
            float *x = args->x + ((size_t)r * args->heads + h) * args->head_dim;
            for (uint32_t i = 0; i < args->pairs; i++) {
                const float *entry = args->table + ((size_t)r * args->pairs + i) * 2;
                float a = x[i * step];
                float b = x[i * step + other];
                x[i * step] = fmaf(a, entry[0], -(b * entry[1]));
                x[i * step + other] = fmaf(b, entry[0], a * entry[1]);
            }
        }
}

void k_act_ref_int8(const struct act_args *args, uint32_t begin, uint32_t end)
{
    for (size_t i = (size_t)begin * args->cols; i < (size_t)end * args->cols; i++) {
        float g = args->x[i];
        args->x[i] = g / (1.0f + fixed_math_exp(-g)) * args->up[i];
    }
}

float k_logits_stats_ref_int8(const float *logits, uint32_t vocab, struct logits_stats *out)
{
    float lanes[16] = {0};
    float max = -INFINITY;
    uint32_t argmax = 0;
    for (uint32_t i = 0; i < vocab; i++)
        if (logits[i] > max) {
            max = logits[i];
            argmax = i;
        }
    for (uint32_t i = 0; i < vocab; i++)
        lanes[i % 16] += fixed_math_exp(logits[i] - max);
    out->max = max;
    out->argmax = argmax;
    return fixed_math_fold16(lanes);
}
