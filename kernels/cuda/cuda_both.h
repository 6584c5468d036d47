/* cuda_both: marks what the processor and a device both compute.
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
