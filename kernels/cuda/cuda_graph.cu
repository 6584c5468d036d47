#include "kernels/cuda/cuda_backend.cuh"

#include "kernels/cuda/cuda_nccl.h"

/* A rank's state for a step. For a graph with launches it is above GRAPH_SEEN, by the number of its
 * capture. */
enum { GRAPH_OFF, GRAPH_NEW, GRAPH_SEEN };

/* Makes the graph one that was only seen. */
static void graph_forget(struct cuda_backend *backend, struct cuda_graph *graph)
{
    if (graph->launches == NULL)
        return;
    if (!backend->is_failed) /* it may still run */
        cuda_backend_is_well(backend, cudaStreamSynchronize(backend->stream), "graph");
    (void)cudaGraphExecDestroy((cudaGraphExec_t)graph->launches);
    backend->graphs.bytes -= graph->bytes;
    graph->launches = NULL;
    graph->bytes = 0;
}

static void graph_drop(struct cuda_backend *backend, struct cuda_graph *graph)
{
    graph_forget(backend, graph);
    cuda_graph_remove(&backend->graphs, graph);
}

extern "C" void cuda_graph_clear(struct cuda_backend *backend)
{
    while (backend->graphs.count > 0)
        graph_drop(backend, &backend->graphs.graphs[0]);
}

extern "C" void cuda_graph_set(struct cuda_backend *backend, bool is_on)
{
    cuda_graph_clear(backend);
    backend->graphs.is_off = !is_on;
}

extern "C" struct cuda_graphs *cuda_graph_all(struct cuda_backend *backend)
{
    return &backend->graphs;
}

/* Switches graphs off, unless the device is lost, which is reported elsewhere. */
static void graph_end(struct cuda_backend *backend, const char *why)
{
    cuda_graph_clear(backend);
    if (!backend->is_failed)
        cuda_graph_give_up(&backend->graphs, why);
}

static uint64_t graph_state(const struct cuda_graphs *graphs, const struct cuda_graph *graph)
{
    if (graphs->is_off)
        return GRAPH_OFF;
    if (graph == NULL)
        return GRAPH_NEW;
    return GRAPH_SEEN + (graph->launches != NULL ? 1 + graph->capture : 0);
}

/* Returns what all ranks do, when each has state `own`. All ranks must launch a sum of NCCL from
 * graphs of the same capture, or none may: otherwise ranks could wait for each other for ever. If
 * one rank dropped a graph, for example for a draft model's graphs, all ranks capture it again. */
static uint64_t graph_agreed(struct cuda_backend *backend, const struct cuda_graph_key *key,
                             uint64_t own)
{
    uint64_t least = own;
    uint64_t most = own;
    if (key->has_sums && backend->nccl != NULL &&
        !cuda_nccl_agree(backend->nccl, own, &least, &most))
        return GRAPH_OFF;
    return least == most || least < GRAPH_SEEN ? least : (uint64_t)GRAPH_SEEN;
}

static size_t graph_free_bytes()
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    (void)cudaMemGetInfo(&free_bytes, &total_bytes);
    return free_bytes;
}

/* Records what forward launches as a graph, without running it. */
static cudaError_t graph_record(struct cuda_backend *backend, cudaGraph_t *out,
                                void (*forward)(void *context), void *context)
{
    struct cuda_graphs *graphs = &backend->graphs;
    cudaError_t error = cudaStreamBeginCapture(backend->stream, cudaStreamCaptureModeThreadLocal);
    if (error != cudaSuccess)
        return error;
    graphs->error = cudaSuccess;
    graphs->is_capturing = true;
    forward(context);
    graphs->is_capturing = false;
    error = cudaStreamEndCapture(backend->stream, out); /* needed even where a launch failed */
    return graphs->error != cudaSuccess ? (cudaError_t)graphs->error : error;
}

/* Captures a graph; returns whether it has launches now. If the capture fails in one rank, no error
 * remains except that of a lost device, and graphs are off in all ranks. */
static bool graph_capture(struct cuda_backend *backend, struct cuda_graph *graph,
                          void (*forward)(void *context), void *context)
{
    struct cuda_graphs *graphs = &backend->graphs;
    graph_forget(backend, graph);
    const size_t free_bytes = graph_free_bytes();
    cudaGraph_t recorded = NULL;
    cudaGraphExec_t launches = NULL;
    const uint64_t before = backend->launches;
    const double begin = cuda_backend_seconds();
    cudaError_t error = graph_record(backend, &recorded, forward, context);
    if (error == cudaSuccess)
        error = cudaGraphInstantiate(&launches, recorded, 0);
    if (error == cudaSuccess)
        error = cudaGraphUpload(launches, backend->stream);
    if (recorded != NULL)
        (void)cudaGraphDestroy(recorded);
    if (graph_agreed(backend, &graph->key, error == cudaSuccess ? GRAPH_SEEN : GRAPH_OFF) !=
        GRAPH_SEEN) {
        if (launches != NULL)
            (void)cudaGraphExecDestroy(launches);
        /* reported here; clear it so that no later call fails because of it */
        (void)cudaGetLastError();
        graph_end(backend, error != cudaSuccess ? cudaGetErrorString(error)
                                                : "the capture of another rank failed");
        return false;
    }
    const size_t left_bytes = graph_free_bytes();
    graph->launches = launches;
    graph->kernels = (uint32_t)(backend->launches - before);
    graph->bytes = free_bytes > left_bytes ? free_bytes - left_bytes : 0;
    graphs->bytes += graph->bytes;
    graphs->captured++;
    graphs->captured_us += (uint64_t)((cuda_backend_seconds() - begin) * 1e6);
    graphs->captured_bytes += graph->bytes;
    graphs->captured_sums += graph->key.has_sums;
    graph->capture = graphs->captured_sums;
    return true;
}

/* Drops graphs until the others fit; the last used stays, whatever its size. */
static void graph_make_room(struct cuda_backend *backend)
{
    struct cuda_graphs *graphs = &backend->graphs;
    while (graphs->count == LIMIT_CUDA_GRAPHS ||
           (graphs->count > 1 && graphs->bytes > LIMIT_CUDA_GRAPH_BYTES))
        graph_drop(backend, cuda_graph_oldest(graphs));
}

extern "C" void cuda_graph_run(struct cuda_backend *backend, const struct cuda_graph_key *key,
                               void (*forward)(void *context), void *context)
{
    struct cuda_graphs *graphs = &backend->graphs;
    struct cuda_graph *graph = cuda_graph_find(graphs, key);
    const uint64_t agreed = graph_agreed(backend, key, graph_state(graphs, graph));
    if (agreed == GRAPH_OFF && !graphs->is_off)
        graph_end(backend, "another rank uses no graphs");
    if (agreed == GRAPH_NEW && graph == NULL) {
        graph_make_room(backend);
        cuda_graph_add(graphs, key);
    }
    if (agreed == GRAPH_OFF || agreed == GRAPH_NEW ||
        (agreed == GRAPH_SEEN && !graph_capture(backend, graph, forward, context))) {
        forward(context);
        return;
    }
    if (!backend->is_failed &&
        cuda_backend_is_well(
            backend, cudaGraphLaunch((cudaGraphExec_t)graph->launches, backend->stream), "graph"))
        graphs->replayed++;
}
