#include "kernels/cpu/ref_int8/ref_int8.h"

#include <string.h>

#include "kernels/cpu/fixed_math.h"

float k_norm_scale_ref_int8(const float *x, uint32_t cols, float epsilon)
{
    float lanes[16] = {0};
    for (uint32_t i = 0; i < cols; i++)
        lanes[i % 16] = fmaf(x[i], x[i], lanes[i % 16]);
    return 1.0f / sqrtf(fixed_math_fold16(lanes) / (float)cols + epsilon);
}

float k_layer_scale_ref_int8(const float *x, uint32_t cols, float epsilon, float *mean)
{
    float lanes[16] = {0};
    for (uint32_t i = 0; i < cols; i++)
        lanes[i % 16] += x[i];
    *mean = fixed_math_fold16(lanes) / (float)cols;
    memset(lanes, 0, sizeof lanes);
    for (uint32_t i = 0; i < cols; i++)
        lanes[i % 16] = fmaf(x[i] - *mean, x[i] - *mean, lanes[i % 16]);
    return 1.0f / sqrtf(fixed_math_fold16(lanes) / (float)cols + epsilon);
}

void k_norm_ref_int8(const struct norm_args *args, uint32_t begin, uint32_t end)
{
    for (uint32_t r = begin; r < end; r++) {
        const float *x = args->x + (size_t)r * args->cols;
        float *y = args->y + (size_t)r * args->cols;
        float mean = 0;
        const float scale = args->kind == NORM_LAYER
                                ? k_layer_scale_ref_int8(x, args->cols, args->epsilon, &mean)
                                : k_norm_scale_ref_int8(x, args->cols, args->epsilon);
        for (uint32_t i = 0; i < args->cols; i++) {
            const float bias = args->bias != NULL ? args->bias[i] : 0;
            const float value = args->kind == NORM_LAYER
                                    ? fmaf((x[i] - mean) * scale, args->weight[i], bias)
                                    : x[i] * scale * args->weight[i];
            y[i] = args->accumulate ? y[i] + value : value;
        }
    }
}

void k_rope_ref_int8(const struct rope_args *args, uint32_t begin, uint32_t end)
{
    const uint32_t step = args->pairing == ROPE_INTERLEAVED ? 2 : 1;
    const uint32_t other = args->pairing == ROPE_INTERLEAVED ? 1 : args->pairs;
    for (uint32_t r = begin; r < end; r++)
        for (uint32_t h = 0; h < args->heads; h++) {
            float *x = args->x + ((size_t)r * args->heads + h) * args->head_dim;
            const struct norm_args norm = {.x = x,
                                           .weight = args->norm,
                                           .y = x,
                                           .rows = 1,
                                           .cols = args->head_dim,
                                           .epsilon = args->epsilon};
            if (args->norm != NULL)
                k_norm_ref_int8(&norm, 0, 1);
            for (uint32_t i = 0; i < args->pairs; i++) {
                const float *entry = args->table + ((size_t)r * args->pairs + i) * 2;
                float a = x[i * step];
                float b = x[i * step + other];
                x[i * step] = fmaf(a, entry[0], -(b * entry[1]));
                x[i * step + other] = fmaf(b, entry[0], a * entry[1]);
            }
        }
}

static float act_of(enum act_kind kind, float x, float up)
{
    /* the greater of two, the second of a number and a NaN, as the vector instructions do */
    const float most = FIXED_MATH_CLAMP < x ? FIXED_MATH_CLAMP : x;
    const float low = fixed_math_max(-FIXED_MATH_CLAMP, up);
    const float clamped = FIXED_MATH_CLAMP < low ? FIXED_MATH_CLAMP : low;
    switch (kind) {
    case ACT_SILU_MUL:
        return fixed_math_sigmoid_mul(x, x) * up;
    case ACT_GELU_MUL:
        return fixed_math_sigmoid_mul(x, fixed_math_gelu_z(x)) * up;
    case ACT_CLAMPED_MUL:
        return fixed_math_sigmoid_mul(most, most * FIXED_MATH_CLAMP_Z) * (clamped + 1.0f);
    case ACT_GELU_TANH:
        return fixed_math_sigmoid_mul(x, fixed_math_gelu_z(x));
    case ACT_GELU_ERF:
        return fixed_math_gelu_erf(x);
    default:
        return x;
    }
}

void k_act_ref_int8(const struct act_args *args, uint32_t begin, uint32_t end)
{
    for (size_t i = (size_t)begin * args->cols; i < (size_t)end * args->cols; i++) {
        const float up = kernels_act_takes_two(args->kind) ? args->up[i] : 1;
        args->x[i] = act_of(args->kind, args->x[i], up);
    }
}

void k_softcap_ref_int8(float *x, size_t count, float cap)
{
    for (size_t i = 0; i < count; i++)
        x[i] = fixed_math_softcap(x[i], cap, 1.0f / cap);
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
