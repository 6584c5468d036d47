/* simt_runtime: the second half of cuda_runtime.h: the functions of the host.
 *
 * Owns:     memory of the device, and graphs (simt.cc).
 * Thread:   as cuda_runtime.h.
 * Not here: what a kernel's threads see (cuda_runtime.h).
 */
#pragma once

#include <functional>
#include <vector>

#include "tests/kit/simt/cuda_runtime.h"

/* --- the runtime: one device; work is done at once --- */
typedef int cudaError_t;
typedef struct simt_stream *cudaStream_t;
typedef struct simt_event *cudaEvent_t;
enum {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidDeviceFunction = 98,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorOperatingSystem = 304,
    cudaErrorNotReady = 600,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
enum { SIMT_SHARED_BYTES = 227 << 10 }; /* most shared memory of a block */
enum cudaFuncAttribute {
    cudaFuncAttributeMaxDynamicSharedMemorySize = 8,
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
};
enum { cudaSharedmemCarveoutMaxShared = 100 };

/* Counts a call and returns the error that it must return. */
cudaError_t simt_call(uint64_t *count);
/* The same for a call that is not allowed during a capture, which it ends. */
cudaError_t simt_call_outside(uint64_t *count);
/* Does work for the stream at once, or adds it to the capture in progress. */
cudaError_t simt_work(uint64_t *count, const std::function<void()> &work);
bool simt_is_capturing();

/* --- memory (simt_memory.cc) --- */
/* simt_node_open returns a new descriptor of the device's node, -1 when this process may not open
 * it. simt_node_try returns whether it may, which the driver needs after the context exists. */
int simt_node_open();
bool simt_node_try();
/* simt_memory_take returns memory that is 256-byte aligned and ends as near to a page's end as that
 * allows; nullptr without a node. simt_memory_give frees it and returns its bytes. */
void *simt_memory_take(size_t bytes);
size_t simt_memory_give(void *memory);
void *simt_pinned_take(size_t bytes);
void simt_pinned_give(void *memory);

/* --- graphs: the work given to a stream, each with its arguments --- */
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
           : error == cudaErrorNoKernelImageForDevice
               ? "no kernel image is available for execution on the device"
           : error == cudaErrorLaunchFailure ? "unspecified launch failure"
           : error == cudaErrorOperatingSystem
               ? "OS call failed or operation not supported on this OS"
           : error == cudaErrorStreamCaptureUnsupported
               ? "operation not permitted when stream is capturing"
               : "operation failed due to a previous error during capture";
}

static inline cudaError_t cudaGetDeviceCount(int *count)
{
    *count = simt_devices;
    return cudaSuccess;
}

static inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
    *out = cudaDeviceProp{"the processor", 9, 0, 4, simt_memory_bytes, simt_shared_most};
    if (device < simt_old_devices)
        out->major = 7, out->minor = 5;
    return cudaSuccess;
}

/* There is no such bus, so the node's number is unknown. */
static inline cudaError_t cudaDeviceGetPCIBusId(char *out, int bytes, int)
{
    snprintf(out, (size_t)bytes, "%s", "0000:00:00.0");
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
    return simt_node_try() ? simt_call(&simt_counts.others) : cudaErrorOperatingSystem;
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

static inline cudaError_t cudaEventQuery(cudaEvent_t)
{
    return simt_call_outside(&simt_counts.queries);
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
    return (size_t)bytes <= simt_shared_most ? simt_call(&simt_counts.others)
                                             : cudaErrorLaunchFailure;
}

struct cudaFuncAttributes {
    int ptxVersion;
};

template <typename P>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *out, void (*)(P))
{
    out->ptxVersion = 90;
    return simt_has_code ? simt_call(&simt_counts.others) : cudaErrorNoKernelImageForDevice;
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
    simt_counts.early += is_early;
    return simt_work(&simt_counts.launches, [=] {
        simt_launch<P> own = launch;
        simt_shared(shared_bytes);
        simt_run(grid, block, is_early, simt_launch<P>::body, &own);
    });
}
