/* simt: what tests set and read of the device that tests/kit/simt plays.
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

/* The n-th call of the runtime from now on fails with simt_error, and all behind it: a lost device.
 * Negative: none fails. */
extern int simt_calls_left;
extern int simt_error;
/* Likewise the n-th of those that make a graph, and that one alone: beginning, launches in between,
 * end, instantiation, upload. */
extern int simt_capture_calls_left;
/* Bytes of device memory there are. */
extern size_t simt_memory_bytes;
extern size_t simt_used_bytes;
/* Bytes of shared memory that a block may have; at the start as many as sm_90 gives. */
extern size_t simt_shared_most;
/* How many devices there are; at the start one. With more each rank has its own, and there is a
 * library for sums over ranks (simt_nccl.h), which refuses them in a capture if that is wanted. */
extern int simt_devices;
/* The first so many of them are of sm_75. */
extern int simt_old_devices;
extern int simt_nccl_refuses_capture;
/* So many binary places below its greatest term the sum inside a matrix instruction is cut; at the
 * start 0: it is not. Devices cut at about 24. */
extern int simt_cut_places;
/* Whether the kernels are there in a form that the device runs. */
extern int simt_has_code;
/* Whether the calling thread may touch the device's memory: while it is the device, or a test says
 * so. Returns what was. */
bool simt_reach(bool may_reach);
/* What a graph takes of it for each work. */
enum { SIMT_GRAPH_BYTES = 256 };

/* Calls since the start, by what they do. */
struct simt_counts {
    uint64_t launches; /* of kernels, captured or not; not those of a graph that is launched */
    uint64_t copies;
    uint64_t waits; /* of the host */
    uint64_t queries;
    uint64_t events;
    uint64_t allocations;
    uint64_t captures; /* calls that make a graph */
    uint64_t graphs;   /* launched */
    uint64_t others;
    uint64_t early; /* of the launches */
};
extern struct simt_counts simt_counts;

#ifdef __cplusplus
}
#endif
