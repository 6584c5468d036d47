/* cuda_gap: how long a graph of launches takes, and how much of it is between kernels.
 *
 * Owns:     nothing.
 * Thread:   as cuda_backend.h says.
 * Cost:     some hundred launches of the graph, waited for: for measurements alone.
 * Not here: graphs (cuda_graph), what a step takes by the host's clock (tests/gpu/gpu_bench_gaps).
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
    double graph_seconds; /* of one launch of it, behind another */
    double gap_seconds;   /* between two kernels of a graph, from the last block of the one to the
                           * first of the other */
};

/* Of the graph that was used last, which is launched again and again: over the same rows, so that
 * pages stay as they are. A gap is that of a chain of kernels of one block each, which wait a known
 * time and twice that: what is left when the time is taken away. They are launched
 * early, as a step's kernels are. NOT_FOUND: there is no graph; UNAVAILABLE as cuda_backend_end. */
enum status cuda_gap_measure(struct cuda_backend *backend, struct cuda_gap_times *out);

#ifdef __cplusplus
}
#endif
