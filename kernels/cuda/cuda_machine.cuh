/* cuda_machine: what a device has and C lacks: halves, matrix instructions, sums over a block.
 *
 * Owns:     nothing.
 * Thread:   device code, by a whole warp (matrix instructions) or block (sums).
 * Cost:     an instruction or a few; a sum over a block is ten barriers.
 * Not here: operations. Without a device compiler, tests/kit/simt has the same in plain C++, so
 *           that these kernels can run and be checked on any processor.
 *
 * Fragments of m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"),
 * for lane = 4g + t; each register holds two neighbours, the first in its low half:
 *     A [16][16]  a[0] row g, columns 2t, 2t + 1;  a[1] row g + 8;  a[2], a[3] 8 columns on
 *     B [16][8]   b[0] rows 2t, 2t + 1, column g;  b[1] rows 2t + 8, 2t + 9
 *     C [16][8]   c[0], c[1] row g, columns 2t, 2t + 1;  c[2], c[3] row g + 8
 */
#pragma once

#include <cuda_runtime.h>
#include <stdint.h>

#if defined(__CUDACC__)
#include <cuda_fp16.h>

/* The first call of every thread in a kernel of cuda_backend_launch_early. After it, all earlier
 * launches are complete and visible. Before it a thread may read weights only, and write shared
 * memory only. The next kernel may be placed only after this call, so that at most one waits on the
 * device. */
static __device__ __forceinline__ void cuda_machine_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

static __device__ __forceinline__ float cuda_machine_half_float(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}

/* To nearest, ties to even; magnitudes from 65,520 on become infinity. */
static __device__ __forceinline__ uint16_t cuda_machine_half(float value)
{
    return __half_as_ushort(__float2half_rn(value));
}

/* Subtracts two halves from two halves. */
static __device__ __forceinline__ uint32_t cuda_machine_half2_sub(uint32_t a, uint32_t b)
{
    uint32_t out;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
    return out;
}

/* a × b + c for two halves each, rounded once. */
static __device__ __forceinline__ uint32_t cuda_machine_half2_fma(uint32_t a, uint32_t b,
                                                                  uint32_t c)
{
    uint32_t out;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
    return out;
}

/* c += a × b, in float32. Volatile, because all lanes of the warp must execute it: the compiler
 * must not move it under a condition that holds for some lanes only (the bounds of a store). */
static __device__ __forceinline__ void cuda_machine_mma_f16(float *c, const uint32_t *a,
                                                            const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ __forceinline__ void cuda_machine_mma_bf16(float *c, const uint32_t *a,
                                                             const uint32_t *b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Returns the block's shared memory, as large as its launch requested; 16-byte aligned. */
static __device__ __forceinline__ char *cuda_machine_shared()
{
    extern __shared__ uint4 cuda_machine_memory[];
    return (char *)cuda_machine_memory;
}

/* Copies 16 bytes to shared memory asynchronously: `bytes` of them from memory, zeros for the
 * remainder. Both addresses are multiples of 16. This thread sees the copy after the wait, others
 * after a barrier behind that. */
static __device__ __forceinline__ void cuda_machine_copy16(void *to, const void *from,
                                                           uint32_t bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes)
                 : "memory");
}

/* The same for 8 bytes. */
static __device__ __forceinline__ void cuda_machine_copy8(void *to, const void *from,
                                                          uint32_t bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;"
                 :
                 : "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes)
                 : "memory");
}

/* Makes one group of the copies requested since the last call. */
static __device__ __forceinline__ void cuda_machine_copied()
{
    asm volatile("cp.async.commit_group;" : : : "memory");
}

/* Waits for all of the thread's groups but the latest LEFT. */
template <int LEFT>
static __device__ __forceinline__ void cuda_machine_copied_wait()
{
    asm volatile("cp.async.wait_group %0;" : : "n"(LEFT) : "memory");
}

/* Waits for all copies that this thread has requested. */
static __device__ __forceinline__ void cuda_machine_copies_wait()
{
    asm volatile("cp.async.wait_all;" : : : "memory");
}
#endif

static __device__ __forceinline__ float cuda_machine_bf16_float(uint16_t bits)
{
    return __uint_as_float((uint32_t)bits << 16);
}

/* To nearest, ties to even; a NaN stays a NaN. */
static __device__ __forceinline__ uint16_t cuda_machine_bf16(float value)
{
    uint32_t bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* For magnitudes up to 448, as half_e4m3_from_float (kernels/types/half.h). */
static __device__ __forceinline__ uint8_t cuda_machine_e4m3(float value)
{
    const uint32_t sign = __float_as_uint(value) >> 24 & 0x80u;
    uint32_t bits = __float_as_uint(value) & 0x7fffffffu;
    if (bits < 0x3c800000u)
        return (uint8_t)(sign | (__float_as_uint(__uint_as_float(bits) + 0x1p14f) - 0x46800000u));
    bits += 0x7ffffu + (bits >> 20 & 1u);
    return (uint8_t)(sign | (bits - 0x3c000000u) >> 20);
}

/* Returns the value ÷ 256: read as a half, the exponent is 8 too small. */
static __device__ __forceinline__ float cuda_machine_e4m3_float(uint8_t value)
{
    return cuda_machine_half_float((uint16_t)((value & 0x80u) << 8 | (value & 0x7fu) << 7));
}

static __device__ __forceinline__ uint32_t cuda_machine_half2(float low, float high)
{
    return (uint32_t)cuda_machine_half(low) | (uint32_t)cuda_machine_half(high) << 16;
}

enum { CUDA_MACHINE_BLOCK = 256 }; /* threads of a block that sums */

/* Σ or maximum over a block of CUDA_MACHINE_BLOCK threads, in one fixed tree; all threads get it.
 */
static __device__ __forceinline__ float cuda_machine_block_sum(float value)
{
    __shared__ float lanes[CUDA_MACHINE_BLOCK];
    lanes[threadIdx.x] = value;
    __syncthreads();
    for (uint32_t half = CUDA_MACHINE_BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            lanes[threadIdx.x] += lanes[threadIdx.x + half];
        __syncthreads();
    }
    const float sum = lanes[0];
    __syncthreads();
    return sum;
}

static __device__ __forceinline__ float cuda_machine_block_max(float value)
{
    __shared__ float lanes[CUDA_MACHINE_BLOCK];
    lanes[threadIdx.x] = value;
    __syncthreads();
    for (uint32_t half = CUDA_MACHINE_BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            lanes[threadIdx.x] = fmaxf(lanes[threadIdx.x], lanes[threadIdx.x + half]);
        __syncthreads();
    }
    const float max = lanes[0];
    __syncthreads();
    return max;
}
