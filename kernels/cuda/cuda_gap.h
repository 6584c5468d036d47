/* cuda_gap: the time that a graph of launches takes, and the part of it between kernels.
 *
 * Owns:     nothing.
 * Thread:   as cuda_backend.h says.
 * Cost:     some hundred launches of the graph, each waited for; for measurements only.
 * Not here: graphs (cuda_graph), a step's time by the host's clock (tests/gpu/gpu_bench_gaps).
 */
#pragma once

#include <stdint.h>

#include "config/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_backend;

struct cuda_gap_times {
    uint32_t kernels;     /* of the graph */
    double graph_seconds; /* of one launch of it, after another */
    /* between two kernels of a graph: from the last block of one to the first block of the next */
    double gap_seconds;
};

/* Launches the graph that was used last repeatedly, over the same rows, so that pages stay as they
 * are. The gap is that of a chain of kernels with one block each, which wait a known time and twice
 * that time: the gap remains when the waiting is subtracted. They are launched early, like a step's
 * kernels. NOT_FOUND: there is no graph; UNAVAILABLE as cuda_backend_end. */
enum status cuda_gap_measure(struct cuda_backend *backend, struct cuda_gap_times *out);

#ifdef __cplusplus
}
#endif
