/* cuda_runtime: the part of CUDA that kernels/cuda uses, on the processor; for tests only.
 *
 * Owns:     the fibers of the running block (simt.cc) and their state.
 * Thread:   one; blocks run one after another, the threads of a block as fibers in turn.
 * Cost:     some thousand times a device's time.
 * Not here: speed; streams that overlap; races between threads, because fibers switch at barriers
 *           only (simt_race finds races). Device memory is out of the host's reach
 *           (simt_memory.cc).
 *
 * Kernels are compiled from the same source. What a device does in hardware is written as its
 * manual defines it: barriers, shuffles, m16n8k16. The manual does not define the sum inside a
 * matrix instruction. Here it is a float32 sum in rising order, or truncated as devices do where a
 * test asks for it (simt_cut_places). So tests check error bounds, and equal bits between the
 * device's own paths.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/types/half.h"
#include "tests/kit/simt/simt.h"

#define CUDA_DEVICE_NODES "/dev/zero"

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__      static /* one block runs at a time */
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

/* --- the running block --- */
extern dim3 simt_thread, simt_block, simt_grid, simt_block_shape;
#define threadIdx simt_thread
#define blockIdx  simt_block
#define gridDim   simt_grid
#define blockDim  simt_block_shape

/* Runs a kernel. Every thread of a kernel that is launched early must begin with
 * cuda_machine_begin. */
void simt_run(dim3 grid, dim3 block, bool is_early, void (*body)(void *context), void *context);
void simt_shared(size_t bytes); /* shared memory of the next launch's blocks */
void simt_barrier_block();
void simt_barrier_warp(); /* for the caller's warp */
/* Exchanges values in the caller's warp: every lane gives `bytes` and reads those of all 32 lanes,
 * 64 bytes apart. */
const char *simt_exchange(const void *given, size_t bytes);
uint32_t simt_lane();

static inline void __syncthreads()
{
    simt_barrier_block();
}

/* Returns whether `predicate` holds in any thread of the block. */
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

static inline uint32_t __ballot_sync(unsigned, int predicate)
{
    const uint32_t given = predicate != 0;
    const char *all = simt_exchange(&given, sizeof given);
    uint32_t out = 0;
    for (uint32_t lane = 0; lane < 32; lane++) {
        uint32_t bit;
        memcpy(&bit, all + 64 * lane, sizeof bit);
        out |= bit << lane;
    }
    return out;
}

static inline int __popc(uint32_t bits)
{
    return __builtin_popcount(bits);
}

uint32_t atomicAdd(uint32_t *at, uint32_t value);
uint32_t atomicOr(uint32_t *at, uint32_t value);

static inline float __uint_as_float(uint32_t bits)
{
    return half_bits_float(bits);
}

static inline uint32_t __float_as_uint(float value)
{
    return half_float_bits(value);
}

/* --- what kernels/cuda/cuda_machine.cuh has on a device --- */
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
/* Until the wait, the target of a copy holds bytes 0xff. */
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
