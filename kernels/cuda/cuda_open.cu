#include "kernels/cuda/cuda_backend.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "kernels/cuda/cuda_linear_lt.cuh"
#include "kernels/cuda/cuda_nccl.h"
#include "kernels/cuda/cuda_weight.h"

enum { BACKEND_CAPABILITY_EARLY = 9 /* griddepcontrol */ };

bool cuda_backend_is_well(struct cuda_backend *backend, cudaError_t error, const char *what)
{
    if (error != cudaSuccess && backend->graphs.is_capturing) {
        if (backend->graphs.error == cudaSuccess)
            backend->graphs.error = error;
        return false;
    }
    if (error != cudaSuccess && !backend->is_failed) {
        backend->is_failed = true;
        snprintf(backend->message, sizeof backend->message, "CUDA device %d: %s: %s",
                 backend->options.device, what, cudaGetErrorString(error));
    }
    return !backend->is_failed;
}

void cuda_backend_fail(struct cuda_backend *backend, const char *why)
{
    if (!backend->is_failed)
        snprintf(backend->message, sizeof backend->message, "%.255s", why);
    backend->is_failed = true;
}

enum status cuda_backend_end(struct cuda_backend *backend)
{
    if (backend->nccl != NULL)
        cuda_nccl_wait(backend->nccl);
    if (!backend->is_failed)
        cuda_backend_is_well(backend, cudaStreamSynchronize(backend->stream), "step");
    backend->step.is_sending = false;
    if (backend->is_failed)
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    return STATUS_OK;
}

/* Fails with the reason why there is no memory: none is left, or the device is lost. */
static enum status backend_no_memory(struct cuda_backend *backend, cudaError_t error, size_t bytes,
                                     const char *where, const char *what)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    if (error != cudaErrorMemoryAllocation)
        cuda_backend_is_well(backend, error, what);
    if (backend->is_failed)
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    /* reported here; clear it so that no later call fails because of it */
    (void)cudaGetLastError();
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    FAIL(STATUS_NO_MEMORY,
         "no memory for %zu MiB of %s%s; %zu MiB of the device's %zu MiB are free",
         (bytes + (1 << 20) - 1) >> 20, where, what, free_bytes >> 20, total_bytes >> 20);
}

enum status cuda_backend_no_memory(struct cuda_backend *backend, size_t bytes, const char *what)
{
    return backend_no_memory(backend, cudaErrorMemoryAllocation, bytes, "", what);
}

enum status cuda_backend_alloc(struct cuda_backend *backend, void **out, size_t bytes,
                               const char *what)
{
    *out = NULL;
    const cudaError_t error = cudaMalloc(out, bytes > 0 ? bytes : 1);
    if (error != cudaSuccess) {
        *out = NULL;
        return backend_no_memory(backend, error, bytes, "", what);
    }
    return STATUS_OK;
}

void cuda_backend_free(struct cuda_backend *backend, void *memory)
{
    cuda_graph_clear(backend);
    cuda_backend_free_apart(memory);
}

void cuda_backend_free_apart(void *memory)
{
    (void)cudaFree(memory);
}

enum status cuda_backend_alloc_host(struct cuda_backend *backend, void **out, size_t bytes,
                                    const char *what)
{
    *out = NULL;
    const cudaError_t error = cudaMallocHost(out, bytes > 0 ? bytes : 1);
    if (error != cudaSuccess) {
        *out = NULL;
        return backend_no_memory(backend, error, bytes, "pinned ", what);
    }
    return STATUS_OK;
}

void cuda_backend_free_host(struct cuda_backend *backend, void *memory)
{
    (void)backend;
    if (memory != NULL)
        (void)cudaFreeHost(memory);
}

/* Exists only so that its compiled form can be read; all kernels have the same. */
__global__ void k_backend_none_cuda(struct cuda_backend_options)
{
}

/* Checks that this build has code for the device, and in which form: code of an older form that the
 * driver translates cannot wait for the kernel before it. */
static enum status open_code(struct cuda_backend *backend, int major)
{
    cudaFuncAttributes attributes = {};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, k_backend_none_cuda);
    const bool has_none =
        error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction;
    if (!cuda_backend_is_well(backend, error, "this build's kernels")) {
        /* reported here; clear it so that no later call fails because of it */
        (void)cudaGetLastError();
        FAIL(has_none ? STATUS_UNSUPPORTED : STATUS_UNAVAILABLE, "%s", backend->message);
    }
    backend->is_early = !backend->options.trial.no_early && major >= BACKEND_CAPABILITY_EARLY &&
                        attributes.ptxVersion >= 10 * BACKEND_CAPABILITY_EARLY;
    return STATUS_OK;
}

static enum status open_device(struct cuda_backend *backend)
{
    const int device = backend->options.device;
    cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error == cudaSuccess)
        error = cudaSetDevice(device);
    if (error != cudaSuccess)
        FAIL(STATUS_UNAVAILABLE, "CUDA device %d: %s", device, cudaGetErrorString(error));
    if (properties.major < CUDA_BACKEND_CAPABILITY)
        FAIL(STATUS_UNSUPPORTED,
             "CUDA device %d, %s, has compute capability %d.%d; at least %d.0 is needed", device,
             properties.name, properties.major, properties.minor, CUDA_BACKEND_CAPABILITY);
    backend->processors = (uint32_t)properties.multiProcessorCount;
    backend->shared_most = properties.sharedMemPerBlockOptin;
    TRY(open_code(backend, properties.major));
    bool is_well =
        cuda_backend_is_well(backend,
                             cudaStreamCreateWithFlags(&backend->stream, cudaStreamNonBlocking),
                             "stream") &&
        cuda_backend_is_well(
            backend, cudaStreamCreateWithFlags(&backend->copies, cudaStreamNonBlocking), "stream");
    cudaEvent_t *events[2 + CUDA_BACKEND_BATCHES] = {&backend->worked, &backend->sent};
    for (int i = 0; i < CUDA_BACKEND_BATCHES; i++)
        events[2 + i] = &backend->batches[i];
    for (cudaEvent_t *event : events)
        is_well = is_well &&
                  cuda_backend_is_well(
                      backend, cudaEventCreateWithFlags(event, cudaEventDisableTiming), "event");
    if (!is_well)
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    return STATUS_OK;
}

static enum status open_memory(struct cuda_backend *backend)
{
    const struct cuda_backend_options *options = &backend->options;
    const size_t rows = options->rows_max;
    const size_t parts = ((size_t)options->cols_max + CUDA_WEIGHT_GROUP - 1) / CUDA_WEIGHT_GROUP *
                         (CUDA_WEIGHT_GROUP / CUDA_WEIGHT_PART);
    const size_t stats_bytes = options->rows_max * sizeof(struct logits_stats);
    TRY(cuda_backend_alloc(backend, &backend->input, rows * parts * CUDA_WEIGHT_PART * 2,
                           "linear layers' inputs"));
    TRY(cuda_backend_alloc(backend, (void **)&backend->input_sums, rows * parts * sizeof(float),
                           "linear layers' inputs"));
    TRY(cuda_backend_alloc(backend, (void **)&backend->input_scales, rows * sizeof(float),
                           "linear layers' inputs"));
    TRY(cuda_backend_alloc(backend, (void **)&backend->gated,
                           rows * options->cols_max * sizeof(float), "gated layers"));
    TRY(cuda_backend_alloc(backend, (void **)&backend->stats, stats_bytes, "a step's rows"));
    TRY(cuda_step_open(backend));
    TRY(cuda_backend_weight_open(backend));
    TRY(cuda_linear_lt_open(backend));
    return cuda_backend_alloc(backend, (void **)&backend->partials, options->split_bytes,
                              "sums in parts");
}

enum status cuda_backend_open(struct cuda_backend **out, const struct cuda_backend_options *options)
{
    *out = NULL;
    if (options->rows_max < 1 || options->rows_max > LIMIT_BATCH_ROWS || options->cols_max < 1 ||
        options->cols_max > LIMIT_WEIGHT_COLS)
        FAIL(STATUS_OUT_OF_RANGE,
             "batches of %u rows over %u inputs; up to %d and %d are supported", options->rows_max,
             options->cols_max, LIMIT_BATCH_ROWS, LIMIT_WEIGHT_COLS);
    struct cuda_backend *backend = (struct cuda_backend *)mem_zalloc(1, sizeof *backend);
    if (backend == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the CUDA kernels");
    backend->options = *options;
    backend->graphs.is_off = options->trial.no_graphs;
    enum status status = open_device(backend);
    if (status == STATUS_OK)
        status = open_memory(backend);
    if (status != STATUS_OK) {
        cuda_backend_close(backend);
        return status;
    }
    *out = backend;
    return STATUS_OK;
}

void cuda_backend_close(struct cuda_backend *backend)
{
    if (backend == NULL)
        return;
    void *const device[] = {backend->input,    backend->input_sums, backend->input_scales,
                            backend->partials, backend->gated,      backend->stats,
                            backend->step.area};
    const cudaEvent_t events[] = {backend->worked, backend->sent};
    const cudaStream_t streams[] = {backend->stream, backend->copies};
    cuda_graph_clear(backend);
    for (cudaStream_t stream : streams)
        if (stream != NULL) {
            (void)cudaStreamSynchronize(stream);
            (void)cudaStreamDestroy(stream);
        }
    for (cudaEvent_t event : events)
        if (event != NULL)
            (void)cudaEventDestroy(event);
    for (cudaEvent_t event : backend->batches)
        if (event != NULL)
            (void)cudaEventDestroy(event);
    for (cudaEvent_t event : backend->weights_sent)
        if (event != NULL)
            (void)cudaEventDestroy(event);
    for (char *memory : backend->weights_host)
        cuda_backend_free_host(backend, memory);
    cuda_linear_lt_close(backend);
    for (void *memory : device)
        cuda_backend_free(backend, memory);
    cuda_backend_free_host(backend, backend->step.host);
    mem_free(backend);
}

void cuda_backend_attach(struct cuda_backend *backend)
{
    cuda_backend_is_well(backend, cudaSetDevice(backend->options.device), "device");
}

void cuda_backend_upload(struct cuda_backend *backend, void *to, const void *from, size_t bytes)
{
    if (backend->is_failed || bytes == 0)
        return;
    if (cuda_backend_is_well(backend,
                             cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, backend->stream),
                             "upload"))
        cuda_backend_is_well(backend, cudaStreamSynchronize(backend->stream), "upload");
}

enum status cuda_backend_download(struct cuda_backend *backend, void *to, const void *from,
                                  size_t bytes)
{
    if (!backend->is_failed && bytes > 0)
        cuda_backend_is_well(backend,
                             cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, backend->stream),
                             "download");
    return cuda_backend_end(backend);
}

struct logits_stats *cuda_backend_stats(const struct cuda_backend *backend)
{
    return backend->stats;
}
