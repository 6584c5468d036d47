#include "kernels/cuda/cuda_backend.cuh"

#include "kernels/cuda/cuda_nccl.h"

/* What a rank has for a step; of a graph with launches more than GRAPH_SEEN, by its capture. */
enum { GRAPH_OFF, GRAPH_NEW, GRAPH_SEEN };

/* It was seen once, no more. */
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

/* From here on there are none, unless the device is lost, which is told elsewhere. */
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

/* What all ranks do, each of which has `own`. NCCL takes a sum that all of them have in a graph, of
 * one capture, or none of them: else ranks may wait for each other without end. Graphs that one
 * rank alone dropped, for those of a draft model say, are captured again by all. */
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

/* What forward launches, as a graph; nothing of it runs. */
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
    error = cudaStreamEndCapture(backend->stream, out); /* also where a launch failed */
    return graphs->error != cudaSuccess ? (cudaError_t)graphs->error : error;
}

/* Whether the graph has launches now. Where not, in one rank, there is no error left behind but of
 * a device that is lost, and graphs are off in all ranks. */
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
        (void)cudaGetLastError(); /* it is told here, and no later call fails for it */
        graph_end(backend, error != cudaSuccess ? cudaGetErrorString(error)
                                                : "another rank's capture has failed");
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

/* Others go until all have room again; the last used stays, whatever it takes. */
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
        graph_end(backend, "another rank has none");
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
