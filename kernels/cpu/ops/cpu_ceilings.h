/* cpu_ceilings: measures the highest rates of arithmetic and of memory reads on this machine, with
 * the instructions of the chosen kernel table.
 *
 * Owns:     the memory that it reads, during the measurement.
 * Thread:   the caller of kernels.h.
 * Cost:     a few tenths of a second. For that time it takes 256 MiB of memory, or model_bytes if
 *           that is more.
 * Not here: what to compare with it (banyan bench).
 */
#pragma once

#include "kernels/cpu/ops/ops.h"

/* Measures each ceiling and raises the values of `out` where the result is higher. A machine
 * changes its speed for seconds, so several measurements tell more than one. NO_MEMORY when 256 MiB
 * or model_bytes cannot be allocated; OUT_OF_RANGE when model_bytes is less than a cache line. */
enum status cpu_ceilings_measure(struct kernels *kernels, size_t model_bytes,
                                 struct kernels_ceilings *out);
