/* cuda_backend: one device: its streams, memory, scratch and first error.
 *
 * Owns:     all device and pinned memory. Pointers in kernels_* arguments are device memory from
 *           cuda_backend_alloc, except the fields that cuda_ops.h calls host memory.
 * Thread:   one caller at a time (the engine thread).
 * Cost:     allocates in open, alloc and weight_create only; an operation is a launch, which
 *           returns at once; cuda_backend_end, uploads and downloads wait for all work.
 * Not here: operations (cuda_ops.h), a step's arrays (cuda_step), graphs (cuda_graph).
 *
 * Errors:   the first failed launch or copy leaves its message here, and from then on nothing is
 *           launched. cuda_backend_end reports it once a step, so that the engine ends cleanly
 *           whatever the device did.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels_step.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_backend;

enum { CUDA_BACKEND_CAPABILITY = 8 }; /* sm_80 and later */

struct cuda_backend_options {
    int device;
    uint32_t rows_max;   /* of one batch */
    uint32_t cols_max;   /* widest input of a linear layer, and widest gated output */
    uint32_t tables_max; /* most page numbers of one batch, over all sequences */
    /* memory for sums in parts (long sequences, linear layers); 0: nothing is split */
    size_t split_bytes;
    /* cuBLASLt may compute many rows; a row's bits may then depend on the other rows */
    bool is_free;
    struct kernels_trial trial; /* for tests and measurements */
    struct kernels *kernels;    /* its threads pack weights; NULL: the caller packs alone */
};

/* UNAVAILABLE with the driver's message; UNSUPPORTED where this build has no code for the device,
 * or the device is older than sm_80; NO_MEMORY with the wanted and the free bytes. */
enum status cuda_backend_open(struct cuda_backend **out,
                              const struct cuda_backend_options *options);
/* Free everything that was allocated from it first. */
void cuda_backend_close(struct cuda_backend *backend);
/* Makes the calling thread work with this device from here on. */
void cuda_backend_attach(struct cuda_backend *backend);

/* Allocates device memory, 256-byte aligned. `what` is for the message: NO_MEMORY, or UNAVAILABLE
 * when the device is lost. */
enum status cuda_backend_alloc(struct cuda_backend *backend, void **out, size_t bytes,
                               const char *what);
void cuda_backend_free(struct cuda_backend *backend, void *memory);
/* The same for memory that no step has used: the steps' graphs stay. */
void cuda_backend_free_apart(void *memory);
/* Allocates pinned host memory, for pools whose pages are copied while work runs. */
enum status cuda_backend_alloc_host(struct cuda_backend *backend, void **out, size_t bytes,
                                    const char *what);
void cuda_backend_free_host(struct cuda_backend *backend, void *memory);
/* Fails like the last allocation, with another `what`. */
enum status cuda_backend_no_memory(struct cuda_backend *backend, size_t bytes, const char *what);

/* Copies after the work queued before. `to` and `from` may be reused when it returns. */
void cuda_backend_upload(struct cuda_backend *backend, void *to, const void *from, size_t bytes);
/* Waits for all work and fills `to`. UNAVAILABLE as cuda_backend_end. */
enum status cuda_backend_download(struct cuda_backend *backend, void *to, const void *from,
                                  size_t bytes);

/* Uploads a matrix in the device's form. UNSUPPORTED: wider than cols_max, or too tall; NO_MEMORY.
 */
enum status cuda_backend_weight_create(struct cuda_backend *backend, struct weight *out,
                                       const struct tensor *tensor);
void cuda_backend_weight_destroy(struct cuda_backend *backend, struct weight *weight);

/* cuda_step_begin for single operations: the rows of `kv` (host memory, read before it returns),
 * attention with `heads` query heads and windows of at most `window` (0: any), by `groups` unless
 * NULL. Layers in window units have the layout's window. */
enum status cuda_backend_batch(struct cuda_backend *backend, const struct kv_rows *kv,
                               uint32_t rows, uint32_t heads, uint32_t window,
                               const struct attention_groups *groups);
/* Returns [rows_max] on the device. */
struct logits_stats *cuda_backend_stats(const struct cuda_backend *backend);

/* Records a failure that does not come from a runtime call; only the first failure is kept. */
void cuda_backend_fail(struct cuda_backend *backend, const char *why);

/* Waits for the work queued before; for copies of pages only after cuda_pages_wait. From the first
 * failure on UNAVAILABLE, with what failed and where. */
enum status cuda_backend_end(struct cuda_backend *backend);

#ifdef __cplusplus
}
#endif
