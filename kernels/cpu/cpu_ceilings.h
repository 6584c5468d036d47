/* cpu_ceilings: what this machine can do at most, measured with the chosen table's leaves.
 *
 * Owns:     the memory it reads, for the time of the measurement.
 * Thread:   the caller of kernels.h.
 * Cost:     a few tenths of a second, 256 MiB of memory (or the model's) for a moment.
 * Not here: what to compare with it (banyan bench).
 */
#pragma once

#include "kernels/cpu/ops/ops.h"

/* What is measured replaces what `out` says where it is higher: a machine changes its speed for
 * seconds, so several moments tell more than one. NO_MEMORY when 256 MiB or model_bytes cannot be
 * had; OUT_OF_RANGE when model_bytes is less than a line. */
enum status cpu_ceilings_measure(struct kernels *kernels, size_t model_bytes,
                                 struct kernels_ceilings *out);
