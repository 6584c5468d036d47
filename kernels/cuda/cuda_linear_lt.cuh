/* cuda_linear_lt: many rows of 16-bit floats by cuBLASLt, where options.is_free allows it.
 *
 * Owns:     the handle, its workspace, its choices for the shapes seen last.
 * Thread:   the backend's caller.
 * Cost:     a shape's first call asks cuBLASLt for its best algorithm (tens of µs); a call is a
 *           launch.
 * Not here: rounding of inputs (cuda_linear.cu). Without BANYAN_CUBLAS (tests/kit/simt, a toolkit
 *           without it) Banyan's own kernels compute everything.
 *
 * A row's bits then depend on the number of rows beside it, because cuBLASLt uses other tiles and
 * splits for every shape. Inputs of float16 have one scale for all rows: the least step is 2^-20,
 * and above a million they are infinite.
 */
#pragma once

#include "kernels/cuda/cuda_backend.cuh"

/* cuBLASLt computes layers of at least this many rows. Below, the layer is bound by reading
 * weights, at which cuda_linear_tile is as fast. By arithmetic, not measured: 64 rows are 128 FLOP
 * a weight of two bytes, 64 a byte. H200 balances at 200, or at 80 with the 40 % of its peak that
 * cuda_linear_tile can reach. */
enum { CUDA_LINEAR_LT_ROWS = 65 };

/* Inputs of float16 are divided by it. */
#define CUDA_LINEAR_LT_SCALE 16.0f

#ifdef BANYAN_CUBLAS
/* Opens cuBLASLt where the options allow it. UNAVAILABLE, NO_MEMORY. */
enum status cuda_linear_lt_open(struct cuda_backend *backend);
void cuda_linear_lt_close(struct cuda_backend *backend);
/* y = or += x · Wᵀ, with the input in backend->input, `parts` wide. */
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
