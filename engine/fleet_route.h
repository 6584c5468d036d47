/* fleet_route: which of several engines has most of a prompt in its cache.
 *
 *   prompt  │ 256 B │ 256 B │ 512 B        │ 1 KiB …        a key where each piece ends: a hash of
 *           └───1───┴───2───┴──────4───────┴──8 …           the domain and of all bytes until there
 *
 * Owns:     which engines were sent a prompt with that beginning, for the last FLEET_ROUTE_PLACES
 *           keys or so.
 * Thread:   one at a time (fleet's lock); fleet_route_keys: any.
 * Cost:     a hash over the prompt's bytes, once; then at most FLEET_ROUTE_KEYS looks at 64 bytes.
 * Not here: engines (fleet), what they really still have (engine/kv/prefix_cache).
 *
 * The longest beginning that an engine was sent decides, then the engine that the first piece
 * points to (highest random weight, Thaler and Ravishankar 1998), so that what was forgotten here
 * finds its way back; for a prompt of less than one piece the least load does. None of it counts
 * for an engine that has much more to do than another: a prompt computed again costs less than a
 * queue. Whoever fills the table with keys of his own takes others nothing but that memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

enum {
    FLEET_ROUTE_PIECE = 256, /* bytes: about four pages of 16 tokens */
    FLEET_ROUTE_KEYS = 16,   /* the last one behind 8 MiB, more than a body has */
    FLEET_ROUTE_SET = 4,
    FLEET_ROUTE_PLACES = 1 << 16, /* keys: those of 10,000 conversations of 16 KiB */
    FLEET_ROUTE_SLACK = 4,        /* requests, beside half as many as the least loaded has */
};

struct fleet_route_place {
    uint64_t key; /* 0 = empty */
    uint32_t used;
    uint32_t engines; /* a bit for each that was sent it */
};

struct fleet_route {
    struct fleet_route_place *places; /* [FLEET_ROUTE_PLACES], sets of FLEET_ROUTE_SET */
    uint32_t engines;
    uint32_t turn;
};

struct fleet_route_keys {
    uint64_t keys[FLEET_ROUTE_KEYS]; /* shortest first */
    uint32_t count;
};

enum status fleet_route_init(struct fleet_route *route, uint32_t engines);
void fleet_route_deinit(struct fleet_route *route);

/* No keys for a request that reads no cache. */
void fleet_route_keys(const struct engine_request *request, struct fleet_route_keys *out);

/* The engine for a prompt with these keys; loads[i]: requests that engine i has. */
uint32_t fleet_route_choose(struct fleet_route *route, const struct fleet_route_keys *keys,
                            const uint32_t *loads);
/* It was sent there. */
void fleet_route_note(struct fleet_route *route, const struct fleet_route_keys *keys,
                      uint32_t engine);
