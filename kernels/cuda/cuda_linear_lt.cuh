/* cuda_linear_lt: many rows of 16-bit floats by cuBLASLt, where options.is_free allows it.
 *
 * Owns:     the handle, its workspace, what it chose for the shapes seen last.
 * Thread:   the backend's caller.
 * Cost:     a shape's first call asks cuBLASLt for its best way (tens of µs); a call is a launch.
 * Not here: rounding of inputs (cuda_linear.cu). Without BANYAN_CUBLAS (tests/kit/simt, a toolkit
 *           that lacks it) there is none: the own kernels do all.
 *
 * A row's bits then hang on how many rows are beside it: for every shape cuBLASLt takes other tiles
 * and splits. Inputs of float16 have one scale for all rows: the least step is 2^-20, and beyond a
 * million they are infinite.
 */
#pragma once

#include "kernels/cuda/cuda_backend.cuh"

/* From so many rows on: below, the layer is bound by reading weights, which cuda_linear_tile does
 * as fast. By arithmetic, not measured: 64 rows are 128 FLOP a weight of two bytes, 64 a byte; H200
 * balances at 200, at 80 with the 40 % of its peak that cuda_linear_tile can have. */
enum { CUDA_LINEAR_LT_ROWS = 65 };

/* Inputs of float16 are divided by it. */
#define CUDA_LINEAR_LT_SCALE 16.0f

#ifdef BANYAN_CUBLAS
/* Where the options allow it. UNAVAILABLE, NO_MEMORY. */
enum status cuda_linear_lt_open(struct cuda_backend *backend);
void cuda_linear_lt_close(struct cuda_backend *backend);
/* y = or += x · Wᵀ, of the input that backend->input holds, `parts` wide. */
void cuda_linear_lt(struct cuda_backend *backend, const struct weight *weight, uint32_t parts,
                    uint32_t rows, float *y, bool accumulate);
#else
static inline enum status cuda_linear_lt_open(struct cuda_backend *backend)
{
    backend->lt = NULL;
    return STATUS_OK;
}
static inline void cuda_linear_lt_close(struct cuda_backend *)
{
}
static inline void cuda_linear_lt(struct cuda_backend *, const struct weight *, uint32_t, uint32_t,
                                  float *, bool)
{
}
#endif
