/* gpu_wgmma: where wgmma reads its inputs and leaves its sums, for gpu_probe. All are index maps,
 * so that a test without a device can compare them with the PTX ISA (chapter "Asynchronous
 * warpgroup-level matrix instructions", sections on register fragments, strides and the matrix
 * descriptor).
 *
 * Owns:     nothing.
 * Thread:   any; `thread` is one of the four warps, or of the one warp of an m16n8k16.
 * Not here: the instructions.
 *
 * Both sides have 16 inputs of 16 bits a row. Shared memory holds core matrices of 8 rows × 8
 * inputs, 128 bytes in one piece, without swizzle. The two of a row's inputs are side by side, so
 * it is 128 bytes to the next along the inputs and 256 to the next eight rows.
 */
#pragma once

#include <stdint.h>

#include "kernels/cuda/cuda_both.h"

enum { GPU_WGMMA_LEADING = 128, GPU_WGMMA_STRIDE = 256 };

struct gpu_wgmma_place {
    uint32_t row;
    uint32_t column;
};

/* Returns the descriptor of a matrix at this address of shared memory. */
static inline CUDA_BOTH uint64_t gpu_wgmma_descriptor(uint32_t address)
{
    return (uint64_t)(address & 0x3ffff) >> 4 | (uint64_t)(GPU_WGMMA_LEADING >> 4) << 16 |
           (uint64_t)(GPU_WGMMA_STRIDE >> 4) << 32;
}

/* Returns the byte at which a row's input is staged. */
static inline CUDA_BOTH uint32_t gpu_wgmma_staged(uint32_t row, uint32_t input)
{
    return row / 8 * GPU_WGMMA_STRIDE + input / 8 * GPU_WGMMA_LEADING + row % 8 * 16 +
           input % 8 * 2;
}

/* Returns the row and the first of the two inputs in a thread's i-th register of A, i < 4. */
static inline CUDA_BOTH struct gpu_wgmma_place gpu_wgmma_of_a(uint32_t thread, uint32_t i)
{
    const uint32_t lane = thread % 32;
    const struct gpu_wgmma_place place = {thread / 32 * 16 + lane / 4 + i % 2 * 8,
                                          lane % 4 * 2 + i / 2 * 8};
    return place;
}

/* Returns the row of A and the row of B whose product is a thread's i-th sum. */
static inline CUDA_BOTH struct gpu_wgmma_place gpu_wgmma_of_sum(uint32_t thread, uint32_t i)
{
    const uint32_t lane = thread % 32;
    const struct gpu_wgmma_place place = {thread / 32 * 16 + lane / 4 + i / 2 % 2 * 8,
                                          i / 4 * 8 + lane % 4 * 2 + i % 2};
    return place;
}
