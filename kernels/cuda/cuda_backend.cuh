/* cuda_backend.cuh: the parts of a backend that its operations use. */
#pragma once

#include <cuda_runtime.h>
#include <time.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_graph.h"
#include "kernels/cuda/cuda_step.h"

enum { CUDA_BACKEND_MESSAGE = 256, CUDA_BACKEND_BATCHES = 32 };

struct cuda_backend {
    struct cuda_backend_options options;
    uint32_t processors; /* streaming multiprocessors */
    size_t shared_most;  /* bytes of a block's shared memory */
    cudaStream_t stream;
    cudaStream_t copies;
    cudaEvent_t worked;                        /* copies wait for it */
    cudaEvent_t batches[CUDA_BACKEND_BATCHES]; /* recorded after the last batches of copies */
    uint64_t batches_begun, batches_over;      /* the last batch; the last known to be complete */
    bool is_early; /* kernels exist in a form that may be launched early */
    bool is_failed;
    struct cuda_nccl *nccl; /* checked before waits; NULL: one rank alone, or sums without NCCL */
    char message[CUDA_BACKEND_MESSAGE];

    /* buffers for weights being uploaded: pinned, weights_bytes each */
    char *weights_host[2];
    cudaEvent_t weights_sent[2];
    size_t weights_bytes;

    struct cuda_linear_lt *lt; /* NULL unless the options allow it */
    /* scratch of linear layers: the rounded input (cuda_linear.cu), [rows_max] */
    void *input;
    float *input_sums;
    float *input_scales;
    float *gated; /* [rows_max][cols_max]: the factor of a gate */

    struct cuda_step step;
    cudaEvent_t sent; /* recorded when the step's area may be written again */
    struct cuda_graphs graphs;
    uint64_t launches;          /* kernels launched, one by one or into a graph */
    struct logits_stats *stats; /* [rows_max] */

    float *partials; /* [split_bytes], for attention and for linear layers */
};

/* Records the first failure. Returns whether there has been none. */
bool cuda_backend_is_well(struct cuda_backend *backend, cudaError_t error, const char *what);

/* Returns the host's monotonic clock in seconds. */
static inline double cuda_backend_seconds()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Allocates the buffers for uploads of weights. */
extern "C" enum status cuda_backend_weight_open(struct cuda_backend *backend);

/* Prepares a kernel for its launch: requests shared memory beyond what every kernel may use. */
template <typename P>
static inline bool cuda_backend_allow(struct cuda_backend *backend, const char *what,
                                      void (*kernel)(P), size_t shared_bytes)
{
    const size_t given = 48 << 10;
    if (shared_bytes > given &&
        !cuda_backend_is_well(backend,
                              cudaFuncSetAttribute(kernel,
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   (int)shared_bytes),
                              what))
        return false;
    return !backend->options.trial.all_carveout ||
           cuda_backend_is_well(backend,
                                cudaFuncSetAttribute(kernel,
                                                     cudaFuncAttributePreferredSharedMemoryCarveout,
                                                     (int)cudaSharedmemCarveoutMaxShared),
                                what);
}

/* Launches one kernel, which takes one struct, with shared_bytes beside what it declares. Does
 * nothing without blocks or after a failure. */
template <typename P>
static inline void cuda_backend_launch(struct cuda_backend *backend, const char *what, dim3 grid,
                                       uint32_t threads, void (*kernel)(P), const P &call,
                                       size_t shared_bytes = 0, bool is_early = false)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute early = {};
    if (backend->is_failed || grid.x == 0 || grid.y == 0 || grid.z == 0)
        return;
    if (!cuda_backend_allow(backend, what, kernel, shared_bytes))
        return;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = grid;
    config.blockDim = dim3(threads, 1, 1);
    config.stream = backend->stream;
    config.dynamicSmemBytes = shared_bytes;
    config.attrs = &early;
    config.numAttrs = is_early && backend->is_early ? 1 : 0;
    backend->launches++;
    cuda_backend_is_well(backend, cudaLaunchKernelEx(&config, kernel, call), what);
}

/* The same for a kernel that begins with cuda_machine_begin. Its blocks are placed while the last
 * blocks of the kernel before it end, and wait there (sm_90 and later; this saves a gap). */
template <typename P>
static inline void cuda_backend_launch_early(struct cuda_backend *backend, const char *what,
                                             dim3 grid, uint32_t threads, void (*kernel)(P),
                                             const P &call, size_t shared_bytes = 0)
{
    cuda_backend_launch(backend, what, grid, threads, kernel, call, shared_bytes, true);
}
