/* cuda_backend: what its operations see of it. */
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
    cudaEvent_t worked;                        /* what copies wait for */
    cudaEvent_t batches[CUDA_BACKEND_BATCHES]; /* behind the last batches of copies */
    uint64_t batches_begun, batches_over;      /* the last one; known to be over */
    bool is_early; /* kernels are there in the form that may be launched early */
    bool is_failed;
    struct cuda_nccl *nccl; /* looked at before waits; NULL: no other ranks, or none by NCCL */
    char message[CUDA_BACKEND_MESSAGE];

    /* weights on their way: pinned, of weights_bytes each */
    char *weights_host[2];
    cudaEvent_t weights_sent[2];
    size_t weights_bytes;

    struct cuda_linear_lt *lt; /* NULL unless the options allow it */
    /* scratch of linear layers: the rounded input (cuda_linear.cu), [rows_max] */
    void *input;
    float *input_sums;
    float *input_scales;
    float *gated; /* [rows_max][cols_max]: what a gate multiplies */

    struct cuda_step step;
    cudaEvent_t sent; /* the step's area may be written again */
    struct cuda_graphs graphs;
    uint64_t launches;          /* of kernels, one by one or into a graph */
    struct logits_stats *stats; /* [rows_max] */

    float *partials; /* [split_bytes] of attention, and of linear layers */
};

/* Records the first failure. Returns whether all is well. */
bool cuda_backend_is_well(struct cuda_backend *backend, cudaError_t error, const char *what);

/* Of the host's clock that never goes back. */
static inline double cuda_backend_seconds()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Memory for uploads of weights. */
extern "C" enum status cuda_backend_weight_open(struct cuda_backend *backend);

/* What a kernel needs before it is launched: leave for so many bytes of shared memory, where they
 * are more than every kernel may have. */
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

/* One kernel, which takes one struct, with so many bytes of shared memory beside what it declares;
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

/* Likewise, of a kernel that begins with cuda_machine_begin: its blocks come to their processors
 * while the last ones of the kernel before end, and wait there (sm_90 on; that saves a gap). */
template <typename P>
static inline void cuda_backend_launch_early(struct cuda_backend *backend, const char *what,
                                             dim3 grid, uint32_t threads, void (*kernel)(P),
                                             const P &call, size_t shared_bytes = 0)
{
    cuda_backend_launch(backend, what, grid, threads, kernel, call, shared_bytes, true);
}
