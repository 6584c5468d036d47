/* cuda_backend: one device: its streams, memory, scratch, its one error.
 *
 * Owns:     all device and pinned memory; what kernels_* arguments point to is device memory from
 *           cuda_backend_alloc, but for the fields that cuda_ops.h names as the host's.
 * Thread:   one caller at a time (the engine thread).
 * Cost:     allocates in open, alloc and of weights only; an operation is a launch, which returns
 *           at once; cuda_backend_end, uploads and downloads wait for all work.
 * Not here: operations (cuda_ops.h), a step's arrays (cuda_step), graphs (cuda_graph).
 *
 * Errors: a launch or copy that fails leaves its words here, and from then on nothing is launched.
 * cuda_backend_end tells, once a step, so that the engine ends cleanly whatever the device did.
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
    uint32_t cols_max;   /* widest input of a linear layer, and gated output */
    uint32_t tables_max; /* page numbers of one batch: pages of each sequence, all together */
    size_t split_bytes;  /* for sums in parts: long texts, linear layers; 0 = none is split */
    bool is_free; /* cuBLASLt may take many rows: a row's bits may hang on what is beside it */
    struct kernels_trial trial; /* for tests and measurements */
    struct kernels *kernels;    /* whose threads pack weights; NULL = the caller packs alone */
};

/* UNAVAILABLE with the driver's words; UNSUPPORTED where this build has no code for the device, or
 * when that is older than sm_80; NO_MEMORY says how much of what was wanted, and how much is free.
 */
enum status cuda_backend_open(struct cuda_backend **out,
                              const struct cuda_backend_options *options);
/* After all that was allocated from it is freed. */
void cuda_backend_close(struct cuda_backend *backend);
/* The calling thread works with this device from here on. */
void cuda_backend_attach(struct cuda_backend *backend);

/* Device memory, 256-byte aligned. `what` is for the message: NO_MEMORY, or UNAVAILABLE when it is
 * the device that is lost. */
enum status cuda_backend_alloc(struct cuda_backend *backend, void **out, size_t bytes,
                               const char *what);
void cuda_backend_free(struct cuda_backend *backend, void *memory);
/* Likewise of memory that no step has touched: the steps' graphs stay. */
void cuda_backend_free_apart(void *memory);
/* Pinned host memory, for pools whose pages are copied beside the work. */
enum status cuda_backend_alloc_host(struct cuda_backend *backend, void **out, size_t bytes,
                                    const char *what);
void cuda_backend_free_host(struct cuda_backend *backend, void *memory);
/* Fails as the two above did, with another `what`. */
enum status cuda_backend_no_memory(struct cuda_backend *backend, size_t bytes, const char *what);

/* Behind what was asked before, in order. `to` and `from` are free when it returns. */
void cuda_backend_upload(struct cuda_backend *backend, void *to, const void *from, size_t bytes);
/* Waits for all work, then `to` is written. UNAVAILABLE as cuda_backend_end. */
enum status cuda_backend_download(struct cuda_backend *backend, void *to, const void *from,
                                  size_t bytes);

/* A matrix as the device reads it. UNSUPPORTED: wider than cols_max, or too tall; NO_MEMORY. */
enum status cuda_backend_weight_create(struct cuda_backend *backend, struct weight *out,
                                       const struct tensor *tensor);
void cuda_backend_weight_destroy(struct cuda_backend *backend, struct weight *weight);

/* cuda_step_begin for operations one by one: rows of `kv` (host memory, read before it returns),
 * attention of `heads` query heads, of no greater window (0: any), by `groups` unless NULL. */
enum status cuda_backend_batch(struct cuda_backend *backend, const struct kv_rows *kv,
                               uint32_t rows, uint32_t heads, uint32_t window,
                               const struct attention_groups *groups);
/* [rows_max] on the device. */
struct logits_stats *cuda_backend_stats(const struct cuda_backend *backend);

/* A failure that is no call's of the runtime; the first one is told. */
void cuda_backend_fail(struct cuda_backend *backend, const char *why);

/* Waits for the work asked before; for copies of pages only after cuda_pages_wait. From the first
 * failure on UNAVAILABLE, with what failed and where. */
enum status cuda_backend_end(struct cuda_backend *backend);

#ifdef __cplusplus
}
#endif
