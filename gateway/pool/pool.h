/* pool: several foreign servers as one source of answers. Each request goes to a server that has
 * its model.
 *
 *   request ──► up, has the model, has room ──► least running by weight ──► its adapter
 *                         ▲                                                    │
 *                         └──── once more, elsewhere: it failed before a token ┘
 *
 * Owns:     the adapters, their health, a copy of each request until its answer has begun.
 * Thread:   the loop's; a thread of its own asks servers that are away or silent.
 * Cost:     a submit looks at each server once; an event is found among the running requests.
 * Not here: what a server is asked and answers (adapter), when it counts as broken (pool_health).
 */
#pragma once

#include "gateway/adapter/adapter.h"
#include "gateway/pool/pool_row.h"

/* A server: its row, and what was read with the rights of the start. */
struct pool_upstream {
    struct pool_row row;
    struct adapter_addresses addresses;
    char key[LIMIT_UPSTREAM_KEY_BYTES]; /* "" = none */
};

struct pool_options {
    struct loop *loop;
    const struct pool_upstream *upstreams; /* must outlive the pool */
    uint32_t count;
    uint32_t idle_ms;
    struct metrics *metrics;
    void (*wake)(void *context);
    void *wake_context;
};

/* Asks every server what it is, one after the other, each for LIMIT_UPSTREAM_PROBE_MS at most. One
 * that does not answer, or not as a server of models, is asked again later. UNAVAILABLE when none
 * can be used; INVALID and FORBIDDEN of adapter_look for any; NO_MEMORY. */
enum status pool_open(struct source **out, const struct pool_options *options);
