#include "kernels/cuda/cuda_gap.h"

#include <string.h>

#include "kernels/cuda/cuda_backend.cuh"
#include "kernels/cuda/cuda_machine.cuh"

enum { GAP_CHAIN = 200, GAP_RUNS = 5, GAP_LAUNCHES = 10, GAP_CYCLES = 5000 };

struct gap_call {
    float *out; /* never written; exists so that nothing is optimised away */
    uint32_t cycles;
};

__global__ void k_gap_wait_cuda(struct gap_call call)
{
    cuda_machine_begin();
    const long long begin = clock64();
    while (clock64() - begin < (long long)call.cycles)
        ;
    if (clock64() < begin)
        *call.out = 0;
}

/* Launches a chain of kernels the way a step's kernels are launched. */
static void gap_chain(struct cuda_backend *backend, uint32_t cycles)
{
    const struct gap_call call = {backend->gated, cycles};
    for (int i = 0; i < GAP_CHAIN; i++)
        cuda_backend_launch_early(backend, "gap", dim3(1), 32, k_gap_wait_cuda, call);
}

static void gap_chain_once(void *context)
{
    gap_chain((struct cuda_backend *)context, GAP_CYCLES);
}

static void gap_chain_twice(void *context)
{
    gap_chain((struct cuda_backend *)context, 2 * GAP_CYCLES);
}

/* Times one launch of the graph that was used last: the best of some runs. */
static enum status gap_time(struct cuda_backend *backend, double *seconds, uint32_t *kernels)
{
    const struct cuda_graph *graph = NULL;
    for (uint32_t i = 0; i < backend->graphs.count; i++)
        if (graph == NULL || backend->graphs.graphs[i].used > graph->used)
            graph = &backend->graphs.graphs[i];
    if (graph == NULL || graph->launches == NULL)
        FAIL(STATUS_NOT_FOUND, "no graph has been launched");
    TRY(cuda_backend_end(backend));
    *kernels = graph->kernels;
    *seconds = 1e9;
    for (int run = 0; run < GAP_RUNS; run++) {
        const double begin = cuda_backend_seconds();
        for (int i = 0; i < GAP_LAUNCHES; i++)
            cuda_backend_is_well(
                backend, cudaGraphLaunch((cudaGraphExec_t)graph->launches, backend->stream), "gap");
        TRY(cuda_backend_end(backend));
        const double each = (cuda_backend_seconds() - begin) / GAP_LAUNCHES;
        *seconds = each < *seconds ? each : *seconds;
    }
    return STATUS_OK;
}

/* Times a chain as a graph of its own. */
static enum status gap_time_chain(struct cuda_backend *backend, void (*chain)(void *context),
                                  double *seconds)
{
    struct cuda_graph_key key;
    uint32_t kernels;
    memset(&key, 0, sizeof key);
    key.forward = chain;
    for (int i = 0; i < 2; i++) /* the second run is captured */
        cuda_graph_run(backend, &key, chain, backend);
    return gap_time(backend, seconds, &kernels);
}

extern "C" enum status cuda_gap_measure(struct cuda_backend *backend, struct cuda_gap_times *out)
{
    double once;
    double twice;
    TRY(gap_time(backend, &out->graph_seconds, &out->kernels));
    TRY(gap_time_chain(backend, gap_chain_once, &once));
    TRY(gap_time_chain(backend, gap_chain_twice, &twice));
    out->gap_seconds = 2 * once > twice ? (2 * once - twice) / GAP_CHAIN : 0;
    return STATUS_OK;
}
