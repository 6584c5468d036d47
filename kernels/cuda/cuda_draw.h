/* cuda_draw: sampling on a device (kernels_draw.h).
 *
 * Owns:     a drawer's device and pinned memory.
 * Thread:   the engine thread.
 * Cost:     for CUDA_DRAW_AT_ONCE draws two kernels, a copy in each direction, then one wait; one
 *           more kernel where adjustments change, and one more copy where a draw has a mask. Only
 *           draws, changes and masks are sent, however much has been generated.
 * Not here: the distribution (engine/sampling/sampler.h).
 */
#pragma once

#include "kernels/cuda/cuda_backend.h"
#include "kernels/kernels_draw.h"

#ifdef __cplusplus
extern "C" {
#endif

/* most draws of one launch; together they have at most adjusts_max adjustments */
enum { CUDA_DRAW_AT_ONCE = 256 };

struct cuda_draw;

/* UNAVAILABLE, NO_MEMORY. */
enum status cuda_draw_open(struct cuda_backend *backend, struct cuda_draw **out, uint32_t vocab,
                           uint32_t adjusts_max);
void cuda_draw_close(struct cuda_draw *draw);

/* Samples. args->logits: device memory, unchanged on return; all else is host memory. */
enum status cuda_draw_run(struct cuda_draw *draw, const struct draw_args *args);

#ifdef __cplusplus
}
#endif
