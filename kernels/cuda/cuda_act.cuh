/* cuda_act.cuh: the arithmetic of activations and norms, for every kernel that does them.
 *
 * Owns:     nothing.
 * Thread:   device code; a norm's factors are computed by a whole block.
 * Cost:     a few instructions an element; a norm reads its row once (NORM_LAYER twice).
 * Not here: launches (cuda_rows.cu, cuda_linear.cu).
 */
#pragma once

#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/kernels_rows.h"

/* Comparisons with a NaN are false, so that a NaN stays one. */
static __device__ __forceinline__ float cuda_act_clamped(float x, float up)
{
    x = x > 7 ? 7 : x;
    up = up > 7 ? 7 : up < -7 ? -7 : up;
    return x / (1 + expf(-1.702f * x)) * (up + 1);
}

/* 1 ÷ (1 + e^−z) = (1 + tanh(z ÷ 2)) ÷ 2. */
static __device__ __forceinline__ float cuda_act_gelu(float x)
{
    const float z = x * fmaf(x * x, 0.07135481627f, 1.59576912161f);
    return x / (1 + expf(-z));
}

static __device__ __forceinline__ float cuda_act_of(enum act_kind kind, float x, float up)
{
    switch (kind) {
    case ACT_SILU_MUL:
        return x / (1 + expf(-x)) * up;
    case ACT_GELU_MUL:
        return cuda_act_gelu(x) * up;
    case ACT_CLAMPED_MUL:
        return cuda_act_clamped(x, up);
    case ACT_GELU_TANH:
        return cuda_act_gelu(x);
    case ACT_GELU_ERF:
        return x * 0.5f * erfcf(x * -0.70710678119f);
    default:
        return x;
    }
}

struct cuda_act_norm {
    float mean; /* of NORM_LAYER */
    float scale;
};

/* Computes the factors of a row's norm; all threads of a block of CUDA_MACHINE_BLOCK get them. */
static __device__ struct cuda_act_norm cuda_act_norm_of(enum norm_kind kind, const float *x,
                                                        uint32_t cols, float epsilon)
{
    struct cuda_act_norm norm = {0, 1};
    float sum = 0;
    float squares = 0;
    if (kind == NORM_LAYER) {
        for (uint32_t i = threadIdx.x; i < cols; i += CUDA_MACHINE_BLOCK)
            sum += x[i];
        norm.mean = cuda_machine_block_sum(sum) / (float)cols;
        for (uint32_t i = threadIdx.x; i < cols; i += CUDA_MACHINE_BLOCK)
            squares = fmaf(x[i] - norm.mean, x[i] - norm.mean, squares);
    } else {
        for (uint32_t i = threadIdx.x; i < cols; i += CUDA_MACHINE_BLOCK)
            squares = fmaf(x[i], x[i], squares);
    }
    norm.scale = 1 / sqrtf(cuda_machine_block_sum(squares) / (float)cols + epsilon);
    return norm;
}

/* Returns the norm of element x; `bias` NULL: none. */
static __device__ __forceinline__ float cuda_act_normed(enum norm_kind kind,
                                                        const struct cuda_act_norm &norm, float x,
                                                        float weight, const float *bias)
{
    return kind == NORM_LAYER ? fmaf((x - norm.mean) * norm.scale, weight, bias != NULL ? *bias : 0)
                              : x * norm.scale * weight;
}
