/* sim_trace: arrivals and lengths as they were seen elsewhere, or drawn like those.
 *
 * Owns:     the arrivals of a file.
 * Thread:   one.
 * Cost:     reading a file of some thousand lines once.
 * Not here: who they are and what they say (sim_load, sim_world).
 *
 * Two forms are read: Azure's ("TIMESTAMP,ContextTokens,GeneratedTokens" and a line each) and
 * Mooncake's (an object a line: "timestamp" in ms, "output_length", "hash_ids", of which equal ones
 * are equal blocks of prompts that begin alike). Lengths shrink to this model's context; a block
 * becomes a page.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/rng.h"

enum { SIM_TRACE_BLOCKS = 8 };

struct sim_arrival {
    int64_t at_us;
    uint32_t prompt;    /* tokens; with blocks, those after them */
    uint32_t generated; /* ≥ 1 */
    uint32_t blocks[SIM_TRACE_BLOCKS];
    uint32_t block_count;
};

struct sim_trace {
    struct sim_arrival *arrivals; /* [count] in order */
    uint32_t count;
};

/* False, with a sentence on standard error, when there is nothing to be read. */
bool sim_trace_open(struct sim_trace *trace, const char *path);
void sim_trace_close(struct sim_trace *trace);

/* One like Azure's conversations of 2023, `gap_us` after `at_us` on average. */
void sim_trace_draw(struct sim_arrival *out, struct rng *rng, int64_t at_us, uint32_t gap_us);
