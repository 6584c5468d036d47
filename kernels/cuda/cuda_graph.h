/* cuda_graph: graphs of a step's launches: for which steps, how many, and which is dropped.
 *
 * Owns:     the captured launches (cuda_graph.cu), until cuda_graph_clear.
 * Thread:   the engine thread.
 * Cost:     a search of LIMIT_CUDA_GRAPHS keys a step; a capture is milliseconds of the host's
 *           time, at the second step of a shape. Where ranks sum their parts, each step also
 *           waits once for all ranks.
 * Not here: a step's arrays (cuda_step). The first half is plain C and tested in every build.
 *
 * A step of few rows is some hundred kernels of microseconds each; launching them one by one, the
 * host would be the slower side. So the rows are padded to a bucket, and the launches of the second
 * step of a bucket are captured and replayed as one from then on. Steps of more than
 * CUDA_GRAPH_ROWS_MAX rows (chunks of prompts) run without graphs, because their kernels take
 * longer than a launch. When a capture fails, here or in another rank, the log says so and no other
 * capture is tried.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "kernels/kernels_step.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For a model of 1B, 256 rows take some 100 µs a layer on an H100 (2 × 10^9 × 256 operations in 16
 * layers at 300 TFLOP/s); the host needs 30 µs for the layer's dozen launches. */
enum { CUDA_GRAPH_ROWS_MAX = 256 };

/* Entries kept for shapes that were seen once, whatever is captured. Without them, shapes that
 * alternate (a draft of few layers, the step that verifies it) would displace each other while all
 * entries are used, and never be captured. */
enum { CUDA_GRAPH_WAITING = 8 };

/* Returns the rows to launch for `rows`: the least of 1, 2, 4, 8, 16, 32, 64, 128, 192 and 256 that
 * is enough, where there is room for that many; above 256, and for 0, `rows`. */
uint32_t cuda_graph_bucket(uint32_t rows, uint32_t room);

/* All that determines launches and their arguments; everything else is read on the device. Compared
 * as bytes, so unused ones are zero. */
struct cuda_graph_key {
    void (*forward)(void *context);
    const void *context;
    const void *pages;
    uint64_t page_bytes; /* with the type it identifies the layout */
    uint32_t type;
    uint32_t page_tokens;
    uint32_t layers;
    uint32_t rows; /* padded */
    uint32_t wanted;
    uint32_t is_all; /* every row wants logits; `wanted` is 0 then */
    /* of attention, over all rows and over those that want logits, for each kind of layers */
    uint32_t blocks[2][KERNELS_STEP_KINDS];
    uint32_t has_states[2][KERNELS_STEP_KINDS];
    uint64_t has_sums; /* sums over ranks; wide, so that the struct has no padding */
};

struct cuda_graph {
    struct cuda_graph_key key;
    void *launches; /* cudaGraphExec_t; NULL: seen once */
    uint32_t kernels;
    size_t bytes;     /* of device memory that it took */
    uint64_t used;    /* order of use */
    uint64_t capture; /* number of its capture among those with sums over ranks */
};

struct cuda_graphs {
    struct cuda_graph graphs[LIMIT_CUDA_GRAPHS];
    uint32_t count;
    uint64_t uses;
    size_t bytes; /* of all */
    bool is_off;
    bool is_capturing;
    int error; /* cudaError_t: the first of the present capture */
    /* Since the start: captures, their time, the device memory that they took; replays. */
    uint64_t captured;
    uint64_t captured_us;
    uint64_t captured_bytes;
    uint64_t replayed;
    uint64_t captured_sums; /* captures with sums over ranks; equal in all ranks */
};

/* Returns the graph of the key and marks it as used last; NULL if there is none. */
struct cuda_graph *cuda_graph_find(struct cuda_graphs *graphs, const struct cuda_graph_key *key);
/* Returns the graph to drop for another one: the least recently used of those seen once if these
 * are CUDA_GRAPH_WAITING or more, otherwise of those with launches. There must be at least one. */
struct cuda_graph *cuda_graph_oldest(struct cuda_graphs *graphs);
/* Removes a graph whose launches are already destroyed. */
void cuda_graph_remove(struct cuda_graphs *graphs, struct cuda_graph *graph);
/* Adds a graph as seen once. There must be room (cuda_graph_oldest, cuda_graph_remove). */
struct cuda_graph *cuda_graph_add(struct cuda_graphs *graphs, const struct cuda_graph_key *key);
/* Switches graphs off and logs why. */
void cuda_graph_give_up(struct cuda_graphs *graphs, const char *why);

struct cuda_backend;
/* Launches what forward(context) launches, from the key's graph if there is one. For sums by NCCL
 * it meets the other ranks: either all launch what they captured together, or none does. */
void cuda_graph_run(struct cuda_backend *backend, const struct cuda_graph_key *key,
                    void (*forward)(void *context), void *context);
/* Drops all graphs, after their last launch; called before memory that they use is freed. */
void cuda_graph_clear(struct cuda_backend *backend);
/* Returns this device's graphs; for tests and measurements. */
struct cuda_graphs *cuda_graph_all(struct cuda_backend *backend);
/* Sets whether steps may use graphs; they do unless a capture failed. For tests and measurements.
 */
void cuda_graph_set(struct cuda_backend *backend, bool is_on);

#ifdef __cplusplus
}
#endif
