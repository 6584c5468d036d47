/* cpu_ceilings: what this machine can do at most, measured with the chosen table's leaves.
 *
 * Owns:     the memory it reads, for the time of the measurement.
 * Thread:   the caller of kernels.h.
 * Cost:     about a second, 1 GiB of memory for a moment.
 * Not here: what to compare with it (banyan bench).
 */
#pragma once

#include "kernels/cpu/ops/ops.h"

/* NO_MEMORY when 1 GiB or model_bytes cannot be had; OUT_OF_RANGE when model_bytes is 0. */
enum status cpu_ceilings_measure(struct kernels *kernels, size_t model_bytes,
                                 struct kernels_ceilings *out);
