#include "config/base/limits.h"
#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_weight.h"

#include <string.h>

/* Uploading weights: all compute threads pack into one pinned buffer while the device reads the
 * other.
 *
 * 8B weights of 16-bit floats are 16 GB, copied once on the host (10 GB/s a thread) and once over
 * PCIe 5 (55 GB/s): 0.3 s with eight threads or more, beside the time to read the file. As 4-bit
 * codes they are 250 million parts of some 0.2 µs each: 50 s on one thread, 3 s on 16. */

enum { UPLOAD_ROWS = 1 << 10 }; /* rows that one call searches for the greatest factor */

struct upload {
    struct cuda_backend *backend;
    const struct cuda_weight_form *form;
    const struct tensor *tensor;
    float scale;
    uint32_t begin; /* tile */
    uint32_t tiles; /* in one buffer */
    size_t codes_each;
    size_t factors_each;
    char *buffer;
    float max[LIMIT_WEIGHT_ROWS / UPLOAD_ROWS + 1];
    bool is_valid[LIMIT_WEIGHT_ROWS / UPLOAD_ROWS + 1];
};

/* Calls `each` for 0 … count − 1, on all threads if there are several. */
static void upload_each(struct upload *upload, uint32_t count,
                        void (*each)(void *context, uint32_t index, uint32_t thread))
{
    struct kernels *kernels = upload->backend->options.kernels;
    if (kernels != NULL)
        kernels_each(kernels, kernels_threads(kernels), count, each, upload);
    for (uint32_t i = 0; i < count && kernels == NULL; i++)
        each(upload, i, 0);
}

static void upload_max(void *context, uint32_t index, uint32_t thread)
{
    struct upload *upload = (struct upload *)context;
    const uint32_t rows = (uint32_t)upload->tensor->dims[1];
    const uint32_t begin = index * UPLOAD_ROWS;
    const uint32_t end = rows - begin < UPLOAD_ROWS ? rows : begin + UPLOAD_ROWS;
    (void)thread;
    upload->max[index] = cuda_weight_max(upload->tensor, begin, end);
    upload->is_valid[index] = tensor_rows_are_valid(upload->tensor, begin, end);
}

static void upload_tile(void *context, uint32_t index, uint32_t thread)
{
    const struct upload *upload = (const struct upload *)context;
    const uint32_t tile = upload->begin + index;
    (void)thread;
    cuda_weight_pack(upload->form, upload->tensor, upload->scale, tile, tile + 1,
                     upload->buffer + index * upload->codes_each,
                     upload->buffer + upload->tiles * upload->codes_each +
                         index * upload->factors_each);
}

static bool upload_copy(struct cuda_backend *backend, void *to, const void *from, size_t bytes)
{
    return bytes == 0 ||
           cuda_backend_is_well(
               backend, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, backend->stream),
               "upload");
}

/* Fills buffer `which` with the tiles from `begin` on, once the device has read what it held. */
static bool upload_buffer(struct upload *upload, int which, char *packed)
{
    struct cuda_backend *backend = upload->backend;
    const uint32_t left = upload->form->tiles - upload->begin;
    const uint32_t count = left < upload->tiles ? left : upload->tiles;
    upload->buffer = backend->weights_host[which];
    if (!cuda_backend_is_well(backend, cudaEventSynchronize(backend->weights_sent[which]),
                              "upload"))
        return false;
    upload_each(upload, count, upload_tile);
    return upload_copy(backend, packed + CUDA_WEIGHT_HEAD + upload->begin * upload->codes_each,
                       upload->buffer, count * upload->codes_each) &&
           upload_copy(
               backend, packed + upload->form->factors_at + upload->begin * upload->factors_each,
               upload->buffer + upload->tiles * upload->codes_each, count * upload->factors_each) &&
           cuda_backend_is_well(
               backend, cudaEventRecord(backend->weights_sent[which], backend->stream), "upload");
}

static enum status upload_run(struct cuda_backend *backend, const struct cuda_weight_form *form,
                              const struct tensor *tensor, char *packed)
{
    struct upload upload = {};
    const uint32_t looks = (uint32_t)(tensor->dims[1] + UPLOAD_ROWS - 1) / UPLOAD_ROWS;
    float max = 0;
    upload.backend = backend;
    upload.form = form;
    upload.tensor = tensor;
    upload.codes_each = form->parts * form->codes_bytes;
    upload.factors_each = form->parts / form->group * form->factors_bytes;
    upload.tiles = (uint32_t)(backend->weights_bytes / (upload.codes_each + upload.factors_each));
    upload_each(&upload, looks, upload_max);
    for (uint32_t i = 0; i < looks; i++) {
        max = upload.max[i] > max ? upload.max[i] : max;
        if (!upload.is_valid[i])
            FAIL(STATUS_CORRUPT, "a block of %s has a factor above 2^15", tensor->type->name);
    }
    upload.scale = cuda_weight_scale(max);
    int which = 0;
    for (; upload.begin < form->tiles; upload.begin += upload.tiles, which = !which)
        if (!upload_buffer(&upload, which, packed))
            break;
    const float unscale = 1 / upload.scale; /* exact: a power of two */
    cuda_backend_upload(backend, packed, &unscale, sizeof unscale);
    return cuda_backend_end(backend);
}

extern "C" enum status cuda_backend_weight_create(struct cuda_backend *backend, struct weight *out,
                                                  const struct tensor *tensor)
{
    struct cuda_weight_form form;
    void *packed;
    memset(out, 0, sizeof *out);
    if (tensor->dims[0] < 1 || tensor->dims[0] > backend->options.cols_max || tensor->dims[1] < 1 ||
        tensor->dims[1] > LIMIT_WEIGHT_ROWS)
        FAIL(STATUS_UNSUPPORTED,
             "a matrix of %llu outputs over %llu inputs; up to %d and %u are supported",
             (unsigned long long)tensor->dims[1], (unsigned long long)tensor->dims[0],
             LIMIT_WEIGHT_ROWS, backend->options.cols_max);
    TRY(cuda_weight_form(&form, tensor->type, (uint32_t)tensor->dims[1], (uint32_t)tensor->dims[0],
                         tensor->group));
    TRY(cuda_backend_alloc(backend, &packed, form.bytes, "weights"));
    const enum status status = upload_run(backend, &form, tensor, (char *)packed);
    if (status != STATUS_OK) {
        cuda_backend_free(backend, packed);
        return status;
    }
    out->type = tensor->type;
    out->rows = (uint32_t)tensor->dims[1];
    out->cols = (uint32_t)tensor->dims[0];
    out->group = tensor->group;
    out->packed = packed;
    out->packed_bytes = form.bytes;
    return STATUS_OK;
}

extern "C" void cuda_backend_weight_destroy(struct cuda_backend *backend, struct weight *weight)
{
    cuda_backend_free(backend, weight->packed);
    memset(weight, 0, sizeof *weight);
}

extern "C" enum status cuda_backend_weight_open(struct cuda_backend *backend)
{
    const size_t least = 16 << 20;
    /* At least one tile of float32, the widest type. */
    const size_t tile = ((size_t)backend->options.cols_max / CUDA_WEIGHT_GROUP + 1) *
                        CUDA_WEIGHT_GROUP * CUDA_WEIGHT_TILE * sizeof(float);
    backend->weights_bytes = tile > least ? tile : least;
    for (int i = 0; i < 2; i++) {
        TRY(cuda_backend_alloc_host(backend, (void **)&backend->weights_host[i],
                                    backend->weights_bytes, "buffers to upload weights"));
        if (!cuda_backend_is_well(
                backend,
                cudaEventCreateWithFlags(&backend->weights_sent[i], cudaEventDisableTiming),
                "event"))
            return cuda_backend_end(backend);
    }
    return STATUS_OK;
}
