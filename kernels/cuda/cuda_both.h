/* cuda_both: marks functions that both the processor and a device compute.
 *
 * Owns:     nothing.
 * Not here: anything else.
 */
#pragma once

#if defined(__CUDACC__)
#define CUDA_BOTH __host__ __device__
#else
#define CUDA_BOTH
#endif
