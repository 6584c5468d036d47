#include "kernels/cpu/ref/ref.h"

#include <math.h>
#include <string.h>

static double norm_mean(const struct norm_args *args, const float *x)
{
    double sum = 0;
    for (uint32_t i = 0; i < args->cols && args->kind == NORM_LAYER; i++)
        sum += (double)x[i];
    return sum / args->cols;
}

void k_norm_ref(const struct norm_args *args, uint32_t begin, uint32_t end)
{
    for (uint32_t r = begin; r < end; r++) {
        const float *x = args->x + (size_t)r * args->cols;
        float *y = args->y + (size_t)r * args->cols;
        const double mean = norm_mean(args, x);
        double squares = 0;
        for (uint32_t i = 0; i < args->cols; i++)
            squares += ((double)x[i] - mean) * ((double)x[i] - mean);
        double scale = 1 / sqrt(squares / args->cols + (double)args->epsilon);
        for (uint32_t i = 0; i < args->cols; i++) {
            const double old = args->accumulate ? (double)y[i] : 0;
            const double bias = args->bias != NULL ? (double)args->bias[i] : 0;
            y[i] = (float)(old + (((double)x[i] - mean) * scale * (double)args->weight[i] + bias));
        }
    }
}

void k_rope_f32_ref(const struct rope_args *args, uint32_t begin, uint32_t end)
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
                k_norm_ref(&norm, 0, 1);
            for (uint32_t i = 0; i < args->pairs; i++) {
                const float *entry = args->table + ((size_t)r * args->pairs + i) * 2;
                double a = (double)x[i * step];
                double b = (double)x[i * step + other];
                x[i * step] = (float)(a * (double)entry[0] - b * (double)entry[1]);
                x[i * step + other] = (float)(b * (double)entry[0] + a * (double)entry[1]);
            }
        }
}

static double act_gelu_tanh(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

/* Returns x bounded to [−7, 7], or to at most 7; a NaN stays a NaN. */
static double act_clamp(double x, bool has_least)
{
    return x > 7 ? 7 : has_least && x < -7 ? -7 : x;
}

static double act_of(enum act_kind kind, double x, double up)
{
    const double most = act_clamp(x, false);
    switch (kind) {
    case ACT_SILU_MUL:
        return x / (1 + exp(-x)) * up;
    case ACT_GELU_MUL:
        return act_gelu_tanh(x) * up;
    case ACT_CLAMPED_MUL:
        return most / (1 + exp(-1.702 * most)) * (act_clamp(up, true) + 1);
    case ACT_GELU_TANH:
        return act_gelu_tanh(x);
    case ACT_GELU_ERF:
        return x / 2 * (1 + erf(x / sqrt(2)));
    default:
        return x;
    }
}

void k_act_ref(const struct act_args *args, uint32_t begin, uint32_t end)
{
    for (size_t i = (size_t)begin * args->cols; i < (size_t)end * args->cols; i++) {
        const double up = kernels_act_takes_two(args->kind) ? (double)args->up[i] : 1;
        args->x[i] = (float)act_of(args->kind, (double)args->x[i], up);
    }
}

void k_softcap_ref(float *x, size_t count, float cap)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((double)cap * tanh((double)x[i] / (double)cap));
}

float k_logits_stats_ref(const float *logits, uint32_t vocab, struct logits_stats *out)
{
    double sum = 0;
    out->max = -INFINITY;
    out->argmax = 0;
    for (uint32_t i = 0; i < vocab; i++)
        if (logits[i] > out->max) {
            out->max = logits[i];
            out->argmax = i;
        }
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - (double)out->max);
    return (float)sum;
}

void k_copy_ref(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
