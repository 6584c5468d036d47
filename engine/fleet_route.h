/* fleet_route: which of several engines has the longest prefix of a prompt in its cache.
 *
 *   prompt  │ 256 B │ 256 B │ 512 B        │ 1 KiB …        a key at each of these ends: a hash of
 *           └───1───┴───2───┴──────4───────┴──8 …           the domain and of all bytes before it
 *
 * Owns:     which engines were sent a prompt with a given prefix, for about the last
 *           FLEET_ROUTE_PLACES keys.
 * Thread:   one at a time (fleet's lock); fleet_route_keys: any.
 * Cost:     one hash over the prompt's bytes; then at most FLEET_ROUTE_KEYS lookups of 64 bytes.
 * Not here: engines (fleet), what they really still hold (engine/kv/prefix_cache).
 *
 * The engine that was sent the longest prefix of the prompt gets it. If no engine is known, the
 * first piece chooses by highest random weight (Thaler and Ravishankar 1998), so that a prefix that
 * was forgotten here still reaches the same engine. A prompt shorter than one piece goes to the
 * engine with the fewest requests. Engines with many more requests than the least loaded are left
 * out from the start: computing a prompt again costs less than waiting in a queue. A client that
 * fills the table with its own keys only makes the table forget others.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

enum {
    FLEET_ROUTE_PIECE = 256, /* bytes: about four pages of 16 tokens */
    FLEET_ROUTE_KEYS = 16,   /* the last key ends at 8 MiB, more than a body can have */
    FLEET_ROUTE_SET = 4,
    FLEET_ROUTE_PLACES = 1 << 16, /* keys: those of about 9,000 conversations of 16 KiB */
    /* An engine may have this many requests more than one and a half times the least loaded's. */
    FLEET_ROUTE_SLACK = 4,
};

struct fleet_route_place {
    uint64_t key;     /* 0 = empty */
    uint32_t used;    /* fleet_route.turn when it was last used */
    uint32_t engines; /* a bit for each engine that was sent it */
};

struct fleet_route {
    struct fleet_route_place *places; /* [FLEET_ROUTE_PLACES], sets of FLEET_ROUTE_SET */
    uint32_t engines;
    uint32_t turn; /* choices so far */
};

struct fleet_route_keys {
    uint64_t keys[FLEET_ROUTE_KEYS]; /* shortest prefix first */
    uint32_t count;
};

/* NO_MEMORY when the table cannot be allocated. */
enum status fleet_route_init(struct fleet_route *route, uint32_t engines);
void fleet_route_deinit(struct fleet_route *route);

/* The keys of a request's prompt; none for a request that reads no cache. */
void fleet_route_keys(const struct engine_request *request, struct fleet_route_keys *out);

/* The engine for a prompt with these keys; loads[i] = requests that engine i has. */
uint32_t fleet_route_choose(struct fleet_route *route, const struct fleet_route_keys *keys,
                            const uint32_t *loads);
/* Records that a prompt with these keys was sent to `engine`. */
void fleet_route_note(struct fleet_route *route, const struct fleet_route_keys *keys,
                      uint32_t engine);
