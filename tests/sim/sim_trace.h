/* sim_trace: arrivals and lengths recorded elsewhere, or drawn like those.
 *
 * Owns:     the arrivals of a file.
 * Thread:   one.
 * Cost:     reading a file of some thousand lines once.
 * Not here: the tenants and the texts (sim_load, sim_world).
 *
 * Two formats are read: Azure's ("TIMESTAMP,ContextTokens,GeneratedTokens", then a line for each
 * request) and Mooncake's (a JSON object a line: "timestamp" in ms, "output_length", "hash_ids";
 * equal ids are equal blocks of prompts with a common beginning). Lengths shrink to this model's
 * context; a block becomes a page.
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
    struct sim_arrival *arrivals; /* [count], in order */
    uint32_t count;
};

/* Returns false, with a message on standard error, when the file cannot be read or is empty. */
bool sim_trace_open(struct sim_trace *trace, const char *path);
void sim_trace_close(struct sim_trace *trace);

/* Draws an arrival like Azure's conversations of 2023, on average `gap_us` after `at_us`. */
void sim_trace_draw(struct sim_arrival *out, struct rng *rng, int64_t at_us, uint32_t gap_us);
