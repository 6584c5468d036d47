/* cuda_ceilings: what a device can do at best, measured when asked.
 *
 * Owns:     nothing; 2 × `bytes` of the device's memory while it measures.
 * Thread:   as cuda_backend.h says.
 * Cost:     some tens of ms.
 * Not here: what a figure is worth (engine/bench/bench_report, tests/gpu/check_report.py).
 */
#pragma once

#include "config/base/status.h"
#include "kernels/kernels_measure.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_backend;

/* As kernels_measure_ceilings, `out` keeps what is higher. read_gbps_model and read_gbps_dram: a
 * copy inside the device, bytes read and written, of `bytes` (more than its caches hold);
 * f32_gflops: products of bfloat16 by m16n8k16 from registers. Libraries that use a device's own
 * larger instructions may go beyond that, on sm_90 by half. int8_gops is left. NO_MEMORY,
 * UNAVAILABLE. */
enum status cuda_ceilings(struct cuda_backend *backend, size_t bytes, struct kernels_ceilings *out);

#ifdef __cplusplus
}
#endif
