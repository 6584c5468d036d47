/* cuda_graph: graphs of a step's launches: for which steps, how many, which one goes.
 *
 * Owns:     the launches that were captured (cuda_graph.cu), until cuda_graph_clear.
 * Thread:   the engine thread.
 * Cost:     a search of LIMIT_CUDA_GRAPHS keys a step; a capture is milliseconds of the host's,
 *           at the second step of a shape. A meeting of ranks a step that has their sums.
 * Not here: what a step's arrays are (cuda_step). The first half is plain C, tested in every build.
 *
 * A step of few rows is some hundred kernels of microseconds each: launched one by one, the host
 * would be the slower side. So its rows are padded to a bucket, and what forward launches at the
 * second step of a bucket is kept and launched as one from then on. Steps of more than
 * CUDA_GRAPH_ROWS_MAX rows (chunks of prompts) run as they are: their kernels take longer than a
 * launch. When a capture fails, here or in another rank, a line of the log says so and no other is
 * tried.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a model of 1B, 256 rows take some 100 µs a layer on an H100 (2 × 10^9 × 256 operations by 16
 * layers at 300 TFLOP/s); its dozen launches take the host 30 µs. */
enum { CUDA_GRAPH_ROWS_MAX = 256 };

/* So many shapes that were seen once have places, whatever is captured: those that alternate (a
 * guess of few layers, the step that judges it) would else throw each other out where all places
 * are taken, and never be captured. */
enum { CUDA_GRAPH_WAITING = 8 };

/* Rows to launch for `rows`: the least of 1, 2, 4, 8, 16, 32, 64, 128, 192 and 256 that is enough,
 * where there is room for that many; above 256, and for 0, `rows`. */
uint32_t cuda_graph_bucket(uint32_t rows, uint32_t room);

/* What decides on launches and their arguments: all else is read on the device. Compared as bytes:
 * zeros first. */
struct cuda_graph_key {
    void (*forward)(void *context);
    const void *context;
    const void *pages;
    uint64_t page_bytes; /* with the type: of what layout they are */
    uint32_t type;
    uint32_t page_tokens;
    uint32_t layers;
    uint32_t rows; /* padded */
    uint32_t wanted;
    uint32_t is_all;    /* every row wants logits: then wanted is 0 */
    uint32_t blocks[2]; /* of attention, of all rows and the wanted */
    uint32_t has_states[2];
    uint64_t has_sums; /* over ranks; wide, so that no bytes are between or behind */
};

struct cuda_graph {
    struct cuda_graph_key key;
    void *launches; /* cudaGraphExec_t; NULL: seen once */
    uint32_t kernels;
    size_t bytes;     /* of device memory that it took */
    uint64_t used;    /* order of use */
    uint64_t capture; /* of those with sums over ranks, the how manieth */
};

struct cuda_graphs {
    struct cuda_graph graphs[LIMIT_CUDA_GRAPHS];
    uint32_t count;
    uint64_t uses;
    size_t bytes; /* of all */
    bool is_off;
    bool is_capturing;
    int error; /* cudaError_t: the first of the capture */
    /* Since the start: captures, their time and the device memory that they took; launches. */
    uint64_t captured;
    uint64_t captured_us;
    uint64_t captured_bytes;
    uint64_t replayed;
    uint64_t captured_sums; /* of the captured those with sums over ranks: as many in all ranks */
};

/* The graph of the key, which is now the last used; or NULL. */
struct cuda_graph *cuda_graph_find(struct cuda_graphs *graphs, const struct cuda_graph_key *key);
/* The one that should go for another: least recently used, of those seen once where they are
 * CUDA_GRAPH_WAITING or more, else of those with launches. There is at least one. */
struct cuda_graph *cuda_graph_oldest(struct cuda_graphs *graphs);
/* Takes a graph out; its launches are gone already. */
void cuda_graph_remove(struct cuda_graphs *graphs, struct cuda_graph *graph);
/* A new one, seen once. There is room (cuda_graph_oldest, cuda_graph_remove). */
struct cuda_graph *cuda_graph_add(struct cuda_graphs *graphs, const struct cuda_graph_key *key);
/* From here on there are none: says why in the log. */
void cuda_graph_give_up(struct cuda_graphs *graphs, const char *why);

struct cuda_backend;
/* Launches what forward(context) launches, by the key's graph where there is one. Where there are
 * sums by NCCL it meets the other ranks: all launch what they captured together, or none does. */
void cuda_graph_run(struct cuda_backend *backend, const struct cuda_graph_key *key,
                    void (*forward)(void *context), void *context);
/* Drops all: behind their last launch, before memory that they use is freed. */
void cuda_graph_clear(struct cuda_backend *backend);
/* Of this device. For tests and measurements. */
struct cuda_graphs *cuda_graph_all(struct cuda_backend *backend);
/* Whether steps may use graphs; they do unless a capture failed. For tests and measurements. */
void cuda_graph_set(struct cuda_backend *backend, bool is_on);

#ifdef __cplusplus
}
#endif
