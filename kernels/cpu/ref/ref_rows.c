#include "kernels/cpu/ref/ref.h"

#include <math.h>
#include <string.h>

void k_norm_ref(const struct norm_args *args, uint32_t begin, uint32_t end)
{
    for (uint32_t r = begin; r < end; r++) {
        const float *x = args->x + (size_t)r * args->cols;
        float *y = args->y + (size_t)r * args->cols;
        double squares = 0;
        for (uint32_t i = 0; i < args->cols; i++)
            squares += (double)x[i] * (double)x[i];
        double scale = 1 / sqrt(squares / args->cols + (double)args->epsilon);
        for (uint32_t i = 0; i < args->cols; i++)
            y[i] = (float)((double)x[i] * scale * (double)args->weight[i]);
    }
}

void k_rope_f32_ref(const struct rope_args *args, uint32_t begin, uint32_t end)
{
    const uint32_t step = args->pairing == ROPE_INTERLEAVED ? 2 : 1;
    const uint32_t other = args->pairing == ROPE_INTERLEAVED ? 1 : args->pairs;
    for (uint32_t r = begin; r < end; r++)
        for (uint32_t h = 0; h < args->heads; h++) {
            float *x = args->x + ((size_t)r * args->heads + h) * args->head_dim;
            for (uint32_t i = 0; i < args->pairs; i++) {
                const float *entry = args->table + ((size_t)r * args->pairs + i) * 2;
                double a = (double)x[i * step];
                double b = (double)x[i * step + other];
                x[i * step] = (float)(a * (double)entry[0] - b * (double)entry[1]);
                x[i * step + other] = (float)(b * (double)entry[0] + a * (double)entry[1]);
            }
        }
}

void k_act_ref(const struct act_args *args, uint32_t begin, uint32_t end)
{
    for (size_t i = (size_t)begin * args->cols; i < (size_t)end * args->cols; i++) {
        double g = (double)args->x[i];
        args->x[i] = (float)(g / (1 + exp(-g)) * (double)args->up[i]);
    }
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
