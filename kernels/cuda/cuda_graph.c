#include "kernels/cuda/cuda_graph.h"

#include <string.h>

#include "config/base/log.h"
#include "config/base/status.h"

uint32_t cuda_graph_bucket(uint32_t rows, uint32_t room)
{
    /* At these counts linear layers change the kernel or the number of row tiles. */
    static const uint32_t buckets[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 192, CUDA_GRAPH_ROWS_MAX};
    for (size_t i = 0; i < sizeof buckets / sizeof *buckets; i++)
        if (rows <= buckets[i])
            return buckets[i] <= room ? buckets[i] : rows > room ? rows : room;
    return rows;
}

struct cuda_graph *cuda_graph_find(struct cuda_graphs *graphs, const struct cuda_graph_key *key)
{
    for (uint32_t i = 0; i < graphs->count; i++)
        if (memcmp(&graphs->graphs[i].key, key, sizeof *key) == 0) {
            graphs->graphs[i].used = ++graphs->uses;
            return &graphs->graphs[i];
        }
    return NULL;
}

struct cuda_graph *cuda_graph_oldest(struct cuda_graphs *graphs)
{
    struct cuda_graph *oldest = NULL;
    uint32_t waiting = 0; /* shapes seen once */
    ASSERT(graphs->count > 0);
    for (uint32_t i = 0; i < graphs->count; i++)
        waiting += graphs->graphs[i].launches == NULL;
    const bool is_waiting = waiting >= CUDA_GRAPH_WAITING || waiting == graphs->count;
    for (uint32_t i = 0; i < graphs->count; i++) {
        struct cuda_graph *graph = &graphs->graphs[i];
        if ((graph->launches == NULL) == is_waiting &&
            (oldest == NULL || graph->used < oldest->used))
            oldest = graph;
    }
    return oldest;
}

void cuda_graph_remove(struct cuda_graphs *graphs, struct cuda_graph *graph)
{
    graphs->bytes -= graph->bytes;
    *graph = graphs->graphs[--graphs->count];
}

struct cuda_graph *cuda_graph_add(struct cuda_graphs *graphs, const struct cuda_graph_key *key)
{
    ASSERT(graphs->count < LIMIT_CUDA_GRAPHS);
    struct cuda_graph *graph = &graphs->graphs[graphs->count++];
    memset(graph, 0, sizeof *graph);
    memcpy(&graph->key, key, sizeof *key);
    graph->used = ++graphs->uses;
    return graph;
}

void cuda_graph_give_up(struct cuda_graphs *graphs, const char *why)
{
    graphs->is_off = true;
    LOG(LOG_WARN, "cuda_graphs_off", LOG_TEXT("reason", why),
        LOG_NUMBER("captured", graphs->captured));
}
