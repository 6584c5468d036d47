/* cuda_backend: what its operations see of it. */
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_plan.h"
#include "kernels/cuda/cuda_tiles.h"

enum { CUDA_BACKEND_MESSAGE = 256 };

/* Rows, and tiles of rows, likewise. */
struct cuda_backend_rows {
    struct cuda_plan_row *rows_host;
    struct cuda_plan_row *rows;
    struct cuda_tiles_head *tiles_host;
    struct cuda_tiles_head *tiles;
    uint32_t row_count;
    uint32_t tiles_heads; /* query heads that the tiles are for; 0 = none are made */
};

enum { BACKEND_TOKENS, BACKEND_POSITIONS, BACKEND_ORDER, BACKEND_WORDS };

struct cuda_backend {
    struct cuda_backend_options options;
    uint32_t processors; /* streaming multiprocessors */
    size_t shared_most;  /* bytes of a block's shared memory */
    cudaStream_t stream;
    cudaStream_t copies;
    cudaEvent_t worked; /* what copies wait for */
    cudaEvent_t copied; /* what work waits for */
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

    /* the batch, on the host (pinned) and on the device: its rows, those of them that want logits,
     * and the tables of both; of a step also tokens, positions and indexes of wanted rows */
    struct cuda_backend_rows all;
    struct cuda_backend_rows wanted;
    uint32_t *tables_host;
    uint32_t *tables;
    uint32_t *words_host; /* [BACKEND_WORDS][rows_max] */
    uint32_t *words;
    struct logits_stats *stats; /* [rows_max] */
    cudaEvent_t sent;           /* the host's copies may be written again */

    float *partials; /* [split_bytes] of attention, and of linear layers */
};

/* Records the first failure. Returns whether all is well. */
bool cuda_backend_is_well(struct cuda_backend *backend, cudaError_t error, const char *what);

/* From pinned memory, which may be written again when `sent` is over. */
void cuda_backend_send(struct cuda_backend *backend, void *to, const void *from, size_t bytes);

/* Memory for uploads of weights. */
extern "C" enum status cuda_backend_weight_open(struct cuda_backend *backend);

/* One kernel, which takes one struct, with so many bytes of shared memory beside what it declares;
 * nothing without blocks or after a failure. */
template <typename P>
static inline void cuda_backend_launch(struct cuda_backend *backend, const char *what, dim3 grid,
                                       uint32_t threads, void (*kernel)(P), const P &call,
                                       size_t shared_bytes = 0)
{
    const size_t given = 48 << 10; /* more must be asked for */
    cudaLaunchConfig_t config = {};
    if (backend->is_failed || grid.x == 0 || grid.y == 0 || grid.z == 0)
        return;
    if (shared_bytes > given &&
        !cuda_backend_is_well(backend,
                              cudaFuncSetAttribute(kernel,
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   (int)shared_bytes),
                              what))
        return;
    config.gridDim = grid;
    config.blockDim = dim3(threads, 1, 1);
    config.stream = backend->stream;
    config.dynamicSmemBytes = shared_bytes;
    cuda_backend_is_well(backend, cudaLaunchKernelEx(&config, kernel, call), what);
}
