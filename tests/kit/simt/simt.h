/* simt: what tests set and read of the device that tests/kit/simt emulates.
 *
 * Owns:     nothing.
 * Thread:   as cuda_runtime.h.
 * Not here: the device itself (cuda_runtime.h, simt.cc).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The n-th runtime call from now on fails with simt_error, and so do all later ones: a lost device.
 * Negative: none fails. */
extern int simt_calls_left;
extern int simt_error;
/* The same for the n-th call that makes a graph, which fails alone: begin, launches in between,
 * end, instantiation, upload. */
extern int simt_capture_calls_left;
/* Bytes of device memory. */
extern size_t simt_memory_bytes;
extern size_t simt_used_bytes;
/* Most bytes of shared memory of a block; at first as many as sm_90 has. */
extern size_t simt_shared_most;
/* The number of devices; at first one. With more, each rank has its own device, and there is a
 * library for sums over ranks (simt_nccl.h), which refuses captures if a test asks for that. */
extern int simt_devices;
/* The number of devices, from the first one on, that are of sm_75. */
extern int simt_old_devices;
extern int simt_nccl_refuses_capture;
/* The sum inside a matrix instruction is truncated at this many binary places below its greatest
 * term; at first 0: not truncated. Devices truncate at about 24. */
extern int simt_cut_places;
/* Whether the kernels exist in a form that the device runs. */
extern int simt_has_code;
/* Sets whether the calling thread may touch the device's memory: while it plays the device, or when
 * a test says so. Returns the earlier setting. */
bool simt_reach(bool may_reach);
/* Device memory that a graph takes for each of its works. */
enum { SIMT_GRAPH_BYTES = 256 };

/* Calls since the start, by kind. */
struct simt_counts {
    uint64_t launches; /* of kernels, captured or not, without those of replayed graphs */
    uint64_t copies;
    uint64_t waits; /* of the host */
    uint64_t queries;
    uint64_t events;
    uint64_t allocations;
    uint64_t captures; /* calls that make a graph */
    uint64_t graphs;   /* launched */
    uint64_t others;
    uint64_t early; /* launches that were early */
};
extern struct simt_counts simt_counts;

#ifdef __cplusplus
}
#endif
