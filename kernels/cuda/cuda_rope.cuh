/* cuda_rope.cuh: the rotation of one head of a row, with the norm before it.
 *
 * Owns:     nothing.
 * Thread:   device code of a whole warp, with equal arguments in all lanes.
 * Cost:     a lane has every 32nd pair; a norm reads and writes the head once more.
 * Not here: launches (cuda_rows.cu, cuda_pages.cu).
 */
#pragma once

#include "kernels/cuda/cuda_machine.cuh"
#include "kernels/kernels_rows.h"

static __device__ void cuda_rope_norm(const struct rope_args *rope, float *x)
{
    float squares = 0;
    for (uint32_t d = threadIdx.x % 32; d < rope->head_dim; d += 32)
        squares = fmaf(x[d], x[d], squares);
    for (int mask = 16; mask > 0; mask /= 2)
        squares += __shfl_xor_sync(0xffffffffu, squares, mask);
    const float scale = 1 / sqrtf(squares / (float)rope->head_dim + rope->epsilon);
    for (uint32_t d = threadIdx.x % 32; d < rope->head_dim; d += 32)
        x[d] = x[d] * scale * rope->norm[d];
    __syncwarp(); /* other lanes rotate what this one has written */
}

static __device__ void cuda_rope_head(const struct rope_args *rope, size_t row, uint32_t head)
{
    const uint32_t step = rope->pairing == ROPE_INTERLEAVED ? 2 : 1;
    const uint32_t other = rope->pairing == ROPE_INTERLEAVED ? 1 : rope->pairs;
    float *x = rope->x + (row * rope->heads + head) * rope->head_dim;
    if (rope->norm != NULL)
        cuda_rope_norm(rope, x);
    for (uint32_t pair = threadIdx.x % 32; pair < rope->pairs; pair += 32) {
        const float *entry = rope->table + (row * rope->pairs + pair) * 2;
        const float a = x[pair * step];
        const float b = x[pair * step + other];
        x[pair * step] = fmaf(a, entry[0], -(b * entry[1]));
        x[pair * step + other] = fmaf(b, entry[0], a * entry[1]);
    }
}
