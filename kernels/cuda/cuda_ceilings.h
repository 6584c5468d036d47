/* cuda_ceilings: the ceilings of a device, measured on request.
 *
 * Owns:     nothing; 2 × `bytes` of device memory while it measures.
 * Thread:   as cuda_backend.h says.
 * Cost:     some tens of ms.
 * Not here: the assessment of figures (engine/bench/bench_report, tests/gpu/check_report.py).
 */
#pragma once

#include "config/base/status.h"
#include "kernels/kernels_measure.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_backend;

/* Measures like kernels_measure_ceilings; `out` keeps the higher values. read_gbps_model and
 * read_gbps_dram are a copy inside the device, bytes read and written, of `bytes` (more than its
 * caches hold). f32_gflops are products of bfloat16 by m16n8k16 from registers; libraries that use
 * a device's larger instructions may exceed it, on sm_90 by half. int8_gops is not measured.
 * NO_MEMORY, UNAVAILABLE. */
enum status cuda_ceilings(struct cuda_backend *backend, size_t bytes, struct kernels_ceilings *out);

#ifdef __cplusplus
}
#endif
