#include "kernels/cuda/cuda_backend.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/base/limits.h"
#include "config/base/mem.h"
#include "kernels/cuda/cuda_linear_lt.cuh"
#include "kernels/cuda/cuda_nccl.h"
#include "kernels/cuda/cuda_weight.h"

enum { BACKEND_CAPABILITY_LEAST = 8 };

bool cuda_backend_is_well(struct cuda_backend *backend, cudaError_t error, const char *what)
{
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
    if (backend->is_failed)
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    return STATUS_OK;
}

/* Why there is no memory: none is left, or the device is lost. */
static enum status backend_no_memory(struct cuda_backend *backend, cudaError_t error, size_t bytes,
                                     const char *where, const char *what)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    if (error != cudaErrorMemoryAllocation) {
        cuda_backend_is_well(backend, error, what);
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    }
    (void)cudaGetLastError(); /* it is told here, and no later call fails for it */
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    FAIL(STATUS_NO_MEMORY,
         "no %s memory for %zu MiB of %s; %zu MiB of the device's %zu MiB are free", where,
         (bytes + (1 << 20) - 1) >> 20, what, free_bytes >> 20, total_bytes >> 20);
}

enum status cuda_backend_alloc(struct cuda_backend *backend, void **out, size_t bytes,
                               const char *what)
{
    *out = NULL;
    const cudaError_t error = cudaMalloc(out, bytes > 0 ? bytes : 1);
    if (error != cudaSuccess) {
        *out = NULL;
        return backend_no_memory(backend, error, bytes, "device", what);
    }
    return STATUS_OK;
}

void cuda_backend_free(struct cuda_backend *backend, void *memory)
{
    (void)backend;
    (void)cudaFree(memory);
}

enum status cuda_backend_alloc_host(struct cuda_backend *backend, void **out, size_t bytes,
                                    const char *what)
{
    *out = NULL;
    const cudaError_t error = cudaMallocHost(out, bytes > 0 ? bytes : 1);
    if (error != cudaSuccess) {
        *out = NULL;
        return backend_no_memory(backend, error, bytes, "pinned host", what);
    }
    return STATUS_OK;
}

void cuda_backend_free_host(struct cuda_backend *backend, void *memory)
{
    (void)backend;
    if (memory != NULL)
        (void)cudaFreeHost(memory);
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
    if (properties.major < BACKEND_CAPABILITY_LEAST)
        FAIL(STATUS_UNAVAILABLE,
             "CUDA device %d, %s, has compute capability %d.%d; %d.0 is the least", device,
             properties.name, properties.major, properties.minor, BACKEND_CAPABILITY_LEAST);
    backend->processors = (uint32_t)properties.multiProcessorCount;
    backend->shared_most = properties.sharedMemPerBlockOptin;
    bool is_well =
        cuda_backend_is_well(backend,
                             cudaStreamCreateWithFlags(&backend->stream, cudaStreamNonBlocking),
                             "stream") &&
        cuda_backend_is_well(
            backend, cudaStreamCreateWithFlags(&backend->copies, cudaStreamNonBlocking), "stream");
    cudaEvent_t *const events[] = {&backend->worked, &backend->copied, &backend->sent};
    for (cudaEvent_t *event : events)
        is_well = is_well &&
                  cuda_backend_is_well(
                      backend, cudaEventCreateWithFlags(event, cudaEventDisableTiming), "event");
    if (!is_well)
        FAIL(STATUS_UNAVAILABLE, "%s", backend->message);
    return STATUS_OK;
}

static enum status open_rows(struct cuda_backend *backend, struct cuda_backend_rows *rows,
                             const char *what)
{
    const size_t row_bytes = backend->options.rows_max * sizeof *rows->rows;
    const size_t tile_bytes = cuda_tiles_bytes(backend->options.rows_max, backend->processors);
    TRY(cuda_backend_alloc(backend, (void **)&rows->rows, row_bytes, what));
    TRY(cuda_backend_alloc(backend, (void **)&rows->tiles, tile_bytes, what));
    TRY(cuda_backend_alloc_host(backend, (void **)&rows->rows_host, row_bytes, what));
    return cuda_backend_alloc_host(backend, (void **)&rows->tiles_host, tile_bytes, what);
}

static enum status open_memory(struct cuda_backend *backend)
{
    const struct cuda_backend_options *options = &backend->options;
    const size_t rows = options->rows_max;
    const size_t parts = ((size_t)options->cols_max + CUDA_WEIGHT_GROUP - 1) / CUDA_WEIGHT_GROUP *
                         (CUDA_WEIGHT_GROUP / CUDA_WEIGHT_PART);
    const size_t words_bytes = BACKEND_WORDS * (size_t)options->rows_max * sizeof(uint32_t);
    const size_t stats_bytes = options->rows_max * sizeof(struct logits_stats);
    const size_t table_bytes = options->tables_max * sizeof(uint32_t);
    const char *batch = "a batch's page tables";
    TRY(cuda_backend_alloc(backend, &backend->input, rows * parts * CUDA_WEIGHT_PART * 2,
                           "linear layers' inputs"));
    TRY(cuda_backend_alloc(backend, (void **)&backend->input_sums, rows * parts * sizeof(float),
                           "linear layers' inputs"));
    TRY(cuda_backend_alloc(backend, (void **)&backend->input_scales, rows * sizeof(float),
                           "linear layers' inputs"));
    TRY(cuda_backend_alloc(backend, (void **)&backend->gated,
                           rows * options->cols_max * sizeof(float), "gated layers"));
    TRY(open_rows(backend, &backend->all, batch));
    TRY(open_rows(backend, &backend->wanted, batch));
    TRY(cuda_backend_alloc(backend, (void **)&backend->tables, table_bytes, batch));
    TRY(cuda_backend_alloc_host(backend, (void **)&backend->tables_host, table_bytes, batch));
    TRY(cuda_backend_alloc(backend, (void **)&backend->words, words_bytes, batch));
    TRY(cuda_backend_alloc_host(backend, (void **)&backend->words_host, words_bytes, batch));
    TRY(cuda_backend_alloc(backend, (void **)&backend->stats, stats_bytes, batch));
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
    void *const device[] = {backend->input,       backend->input_sums,   backend->input_scales,
                            backend->all.rows,    backend->all.tiles,    backend->tables,
                            backend->wanted.rows, backend->wanted.tiles, backend->partials,
                            backend->gated,       backend->words,        backend->stats};
    void *const host[] = {backend->all.rows_host,    backend->all.tiles_host,
                          backend->wanted.rows_host, backend->wanted.tiles_host,
                          backend->tables_host,      backend->words_host};
    const cudaEvent_t events[] = {backend->worked, backend->copied, backend->sent};
    const cudaStream_t streams[] = {backend->stream, backend->copies};
    for (cudaStream_t stream : streams)
        if (stream != NULL) {
            (void)cudaStreamSynchronize(stream);
            (void)cudaStreamDestroy(stream);
        }
    for (cudaEvent_t event : events)
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
    for (void *memory : host)
        cuda_backend_free_host(backend, memory);
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

/* --- the batch --- */

enum status cuda_backend_batch(struct cuda_backend *backend, const struct kv_rows *kv,
                               uint32_t rows)
{
    ASSERT(rows <= backend->options.rows_max);
    if (backend->is_failed)
        return STATUS_OK; /* cuda_backend_end tells */
    if (!cuda_backend_is_well(backend, cudaEventSynchronize(backend->sent), "batch"))
        return STATUS_OK;
    struct cuda_backend_rows *all = &backend->all;
    const uint32_t entries =
        cuda_plan_rows(kv, rows, all->rows_host, backend->tables_host, backend->options.tables_max);
    all->row_count = 0; /* rows_host is another batch's from here on */
    all->tiles_heads = 0;
    backend->wanted.row_count = 0;
    if (entries == CUDA_PLAN_NONE)
        FAIL(STATUS_LIMIT, "a batch of %u rows has more than %u pages in its tables", rows,
             backend->options.tables_max);
    all->row_count = rows;
    if (rows == 0)
        return STATUS_OK;
    cuda_backend_send(backend, all->rows, all->rows_host, rows * sizeof *all->rows);
    cuda_backend_send(backend, backend->tables, backend->tables_host,
                      entries * sizeof *backend->tables);
    return STATUS_OK;
}

static void step_send_words(struct cuda_backend *backend, uint32_t which, const uint32_t *words,
                            uint32_t count)
{
    const size_t at = (size_t)which * backend->options.rows_max;
    memcpy(backend->words_host + at, words, count * sizeof *words);
    cuda_backend_send(backend, backend->words + at, backend->words_host + at,
                      count * sizeof *words);
}

enum status cuda_backend_step(struct cuda_backend *backend, const struct kernels_step *step)
{
    struct cuda_backend_rows *wanted = &backend->wanted;
    TRY(cuda_backend_batch(backend, &step->kv, step->rows));
    if (backend->is_failed)
        return cuda_backend_end(backend);
    wanted->row_count = step->logit_rows;
    wanted->tiles_heads = 0;
    for (uint32_t i = 0; i < step->logit_rows; i++)
        wanted->rows_host[i] = backend->all.rows_host[step->logit_row[i]];
    cuda_backend_send(backend, wanted->rows, wanted->rows_host,
                      step->logit_rows * sizeof *wanted->rows);
    step_send_words(backend, BACKEND_TOKENS, step->tokens, step->rows);
    step_send_words(backend, BACKEND_POSITIONS, step->kv.position, step->rows);
    step_send_words(backend, BACKEND_ORDER, step->logit_row, step->logit_rows);
    return STATUS_OK;
}

struct cuda_backend_fixed cuda_backend_fixed(const struct cuda_backend *backend)
{
    const size_t each = backend->options.rows_max;
    struct cuda_backend_fixed fixed = {};
    fixed.tokens = backend->words + BACKEND_TOKENS * each;
    fixed.positions = backend->words + BACKEND_POSITIONS * each;
    fixed.order = backend->words + BACKEND_ORDER * each;
    fixed.stats = backend->stats;
    return fixed;
}

void cuda_backend_send(struct cuda_backend *backend, void *to, const void *from, size_t bytes)
{
    if (!backend->is_failed && bytes > 0 &&
        cuda_backend_is_well(
            backend, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, backend->stream), "batch"))
        cuda_backend_is_well(backend, cudaEventRecord(backend->sent, backend->stream), "batch");
}
