/* cuda_runtime: the little of CUDA that kernels/cuda uses, on the processor; for tests alone.
 *
 * Owns:     the fibers of the block that runs (simt.cc); device memory is the heap.
 * Thread:   one; blocks run one after another, the threads of a block as fibers in turn.
 * Cost:     some thousand times a device's time.
 * Not here: speed, streams that overlap, races between threads (fibers change at barriers alone).
 *
 * Kernels are compiled from the same source. What a device does in hardware is written out as its
 * manual defines it: barriers, shuffles, m16n8k16. Sums inside a matrix instruction are float32 in
 * rising order here and of unspecified order there: bounds, not bits, are judged.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <functional>
#include <vector>

#include "kernels/half.h"
#include "tests/kit/simt/simt.h"

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
/* Of the caller's warp: every lane gives `bytes`, and sees all 32 lanes' at stride 64. */
const char *simt_exchange(const void *given, size_t bytes);
uint32_t simt_lane();

static inline void __syncthreads()
{
    simt_barrier_block();
}

/* Whether `predicate` holds in any thread of the block. */
int __syncthreads_or(int predicate);
/* It goes on by a hundred with each look. */
static inline long long clock64()
{
    static long long cycles;
    return cycles += 100;
}

static inline void __syncwarp(unsigned = 0xffffffffu)
{
    simt_exchange("", 1);
}

template <typename T>
static inline T __shfl_xor_sync(unsigned, T value, int mask)
{
    T out;
    const char *all = simt_exchange(&value, sizeof value);
    memcpy(&out, all + 64 * (simt_lane() ^ (uint32_t)mask), sizeof out);
    return out;
}

/* Threads change at barriers alone. */
static inline uint32_t atomicAdd(uint32_t *at, uint32_t value)
{
    const uint32_t old = *at;
    *at += value;
    return old;
}

static inline float __uint_as_float(uint32_t bits)
{
    return half_bits_float(bits);
}

static inline uint32_t __float_as_uint(float value)
{
    return half_float_bits(value);
}

/* --- what kernels/cuda/cuda_machine.cuh has from the device --- */
extern uint64_t simt_begun; /* threads that came to it */
static inline void cuda_machine_begin()
{
    simt_begun++;
}

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

/* --- the runtime: one device, work done at once --- */
typedef int cudaError_t;
typedef struct simt_stream *cudaStream_t;
typedef struct simt_event *cudaEvent_t;
enum {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum { SIMT_SHARED_BYTES = 227 << 10 }; /* most of a block */
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

/* Counts a call; the error that it is to return. */
cudaError_t simt_call(uint64_t *count);
/* Likewise, of a call that may not come while a capture is under way: that ends it. */
cudaError_t simt_call_outside(uint64_t *count);
/* Work for the stream: done at once, or kept by the capture that is under way. */
cudaError_t simt_work(uint64_t *count, const std::function<void()> &work);

/* --- graphs: what work a stream was given, each with its arguments as they were --- */
struct simt_graph {
    std::vector<std::function<void()>> works;
};
typedef struct simt_graph *cudaGraph_t;
typedef struct simt_graph *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

cudaError_t cudaMalloc(void **out, size_t bytes);
cudaError_t cudaFree(void *memory);
cudaError_t cudaMallocHost(void **out, size_t bytes);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
    size_t totalGlobalMem;
    size_t sharedMemPerBlockOptin;
};

static inline const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory"
           : error == cudaErrorLaunchFailure  ? "unspecified launch failure"
           : error == cudaErrorStreamCaptureUnsupported
               ? "operation not permitted when stream is capturing"
               : "operation failed due to a previous error during capture";
}

static inline cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int)
{
    *out = cudaDeviceProp{"the processor", 9, 0, 4, simt_memory_bytes, SIMT_SHARED_BYTES};
    return cudaSuccess;
}

static inline cudaError_t cudaSetDevice(int)
{
    return simt_call(&simt_counts.others);
}

static inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind,
                                          cudaStream_t)
{
    return simt_work(&simt_counts.copies, [=] { memcpy(to, from, bytes); });
}

static inline cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t)
{
    return simt_work(&simt_counts.copies, [=] { memset(to, byte, bytes); });
}

static inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned)
{
    *out = nullptr;
    return simt_call(&simt_counts.others);
}

static inline cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return cudaSuccess;
}

static inline cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return simt_call_outside(&simt_counts.waits);
}

static inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned)
{
    *out = nullptr;
    return simt_call(&simt_counts.others);
}

static inline cudaError_t cudaEventDestroy(cudaEvent_t)
{
    return cudaSuccess;
}

static inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t)
{
    return simt_call_outside(&simt_counts.events);
}

static inline cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return simt_call_outside(&simt_counts.waits);
}

static inline cudaError_t cudaGetLastError()
{
    return simt_error;
}

static inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned)
{
    return simt_call_outside(&simt_counts.events);
}

template <typename F>
static inline cudaError_t cudaFuncSetAttribute(F, cudaFuncAttribute, int bytes)
{
    return bytes <= SIMT_SHARED_BYTES ? simt_call(&simt_counts.others) : cudaErrorLaunchFailure;
}

struct cudaFuncAttributes {
    int ptxVersion;
};

template <typename P>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, void (*)(P))
{
    out->ptxVersion = 90;
    return cudaSuccess;
}

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};

struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};

template <typename P>
struct simt_launch {
    void (*kernel)(P);
    P argument;
    static void body(void *context)
    {
        const simt_launch *launch = static_cast<simt_launch *>(context);
        launch->kernel(launch->argument);
    }
};

/* Kernels take one struct. */
template <typename P>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(P),
                                             const P &argument)
{
    const dim3 grid = config->gridDim;
    const dim3 block = config->blockDim;
    const size_t shared_bytes = config->dynamicSmemBytes;
    const simt_launch<P> launch{kernel, argument};
    const bool is_early = config->numAttrs > 0;
    return simt_work(&simt_counts.launches, [=] {
        simt_launch<P> own = launch;
        simt_shared(shared_bytes);
        simt_run(grid, block, is_early, simt_launch<P>::body, &own);
    });
}
