/* cuda_runtime: the little of CUDA that kernels/cuda uses, on the processor; for tests alone.
 *
 * Owns:     the fibers of the block that runs (simt.cc) and what is in it.
 * Thread:   one; blocks run one after another, the threads of a block as fibers in turn.
 * Cost:     some thousand times a device's time.
 * Not here: speed, streams that overlap; races between threads, as fibers change at barriers alone:
 *           simt_race looks for them. Device memory is out of the host's reach (simt_memory.cc).
 *
 * Kernels are compiled from the same source. What a device does in hardware is written out as its
 * manual defines it: barriers, shuffles, m16n8k16. The manual does not define the sum inside a
 * matrix instruction: here it is float32 in rising order, or cut as devices cut it where a test
 * says so (simt_cut_places). So bounds are judged, and bits between the device's own ways.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/half.h"
#include "tests/kit/simt/simt.h"

#define CUDA_DEVICE_NODES "/dev/zero"

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__      static /* one block at a time */
#define __launch_bounds__(...)
#define __restrict__

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_)
    {
    }
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y)
{
    return uint2{x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w)
{
    return uint4{x, y, z, w};
}

/* --- the block that runs --- */
extern dim3 simt_thread, simt_block, simt_grid, simt_block_shape;
#define threadIdx simt_thread
#define blockIdx  simt_block
#define gridDim   simt_grid
#define blockDim  simt_block_shape

/* Every thread of one that is launched early must begin with cuda_machine_begin. */
void simt_run(dim3 grid, dim3 block, bool is_early, void (*body)(void *context), void *context);
void simt_shared(size_t bytes); /* that the next launch's blocks have */
void simt_barrier_block();
void simt_barrier_warp(); /* of the caller's */
/* Of the caller's warp: every lane gives `bytes`, and sees all 32 lanes' at stride 64. */
const char *simt_exchange(const void *given, size_t bytes);
uint32_t simt_lane();

static inline void __syncthreads()
{
    simt_barrier_block();
}

/* Whether `predicate` holds in any thread of the block. */
int __syncthreads_or(int predicate);
long long clock64();

static inline void __syncwarp(unsigned = 0xffffffffu)
{
    simt_barrier_warp();
}

template <typename T>
static inline T __shfl_xor_sync(unsigned, T value, int mask)
{
    T out;
    const char *all = simt_exchange(&value, sizeof value);
    memcpy(&out, all + 64 * (simt_lane() ^ (uint32_t)mask), sizeof out);
    return out;
}

uint32_t atomicAdd(uint32_t *at, uint32_t value);

static inline float __uint_as_float(uint32_t bits)
{
    return half_bits_float(bits);
}

static inline uint32_t __float_as_uint(float value)
{
    return half_float_bits(value);
}

/* --- what kernels/cuda/cuda_machine.cuh has from the device --- */
void cuda_machine_begin();

static inline float cuda_machine_half_float(uint16_t bits)
{
    return half_to_float(bits);
}

static inline uint16_t cuda_machine_half(float value)
{
    return half_from_float(value);
}

static inline uint32_t cuda_machine_half2_sub(uint32_t a, uint32_t b)
{
    const float low = half_to_float((uint16_t)a) - half_to_float((uint16_t)b);
    const float high = half_to_float((uint16_t)(a >> 16)) - half_to_float((uint16_t)(b >> 16));
    return (uint32_t)half_from_float(low) | (uint32_t)half_from_float(high) << 16;
}

void simt_mma(float *c, const uint32_t *a, const uint32_t *b, float (*read)(uint16_t bits));

static inline float simt_bf16_float(uint16_t bits)
{
    return half_bits_float((uint32_t)bits << 16);
}

static inline void cuda_machine_mma_f16(float *c, const uint32_t *a, const uint32_t *b)
{
    simt_mma(c, a, b, half_to_float);
}

static inline void cuda_machine_mma_bf16(float *c, const uint32_t *a, const uint32_t *b)
{
    simt_mma(c, a, b, simt_bf16_float);
}

char *cuda_machine_shared();
/* What is copied is not there before the wait: bytes 0xff are. */
void cuda_machine_copy16(void *to, const void *from, uint32_t bytes);
void cuda_machine_copies_wait();
void cuda_machine_copy8(void *to, const void *from, uint32_t bytes);
void cuda_machine_copied();
void simt_copied_wait(unsigned left); /* groups */
template <int LEFT>
static inline void cuda_machine_copied_wait()
{
    simt_copied_wait(LEFT);
}
uint32_t cuda_machine_half2_fma(uint32_t a, uint32_t b, uint32_t c);

#include "tests/kit/simt/simt_runtime.h"
