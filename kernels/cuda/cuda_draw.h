/* cuda_draw: the drawer of kernels_draw.h on a device.
 *
 * Owns:     a drawer's device and pinned memory.
 * Thread:   the engine thread.
 * Cost:     two kernels, a copy there and a copy back for CUDA_DRAW_AT_ONCE draws, then one wait;
 *           one more kernel where adjusts change. What is sent are draws and changes, however much
 *           has been generated.
 * Not here: the distribution (engine/sampling/sampler.h).
 */
#pragma once

#include "kernels/cuda/cuda_backend.h"
#include "kernels/kernels_draw.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CUDA_DRAW_AT_ONCE = 256 /* draws of one launch; no more than adjusts_max adjusts too */ };

struct cuda_draw;

/* UNAVAILABLE, NO_MEMORY. */
enum status cuda_draw_open(struct cuda_backend *backend, struct cuda_draw **out, uint32_t vocab,
                           uint32_t adjusts_max);
void cuda_draw_close(struct cuda_draw *draw);

/* args->logits: device, and as it was when it returns; all else host. */
enum status cuda_draw_run(struct cuda_draw *draw, const struct draw_args *args);

#ifdef __cplusplus
}
#endif
