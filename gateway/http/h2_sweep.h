/* h2_sweep: looks at HTTP/2 connections for what no handler has seen: streams that were reset
 * before their request was whole, and unfinished bodies.
 *
 * Owns:     nothing; it reads libh2o's connections.
 * Thread:   the loop's thread.
 * Cost:     O(connections + streams) for each look.
 * Not here: what follows from it (listener).
 */
#pragma once

#include <stdbool.h>

#include "gateway/http/h2o_compat.h"

struct h2_sweep_view {
    h2o_socket_t *socket;
    uint32_t streams_opened;  /* since the connection began */
    uint32_t streams_waiting; /* open streams that no handler has seen */
    size_t body_bytes;        /* bytes in unfinished heads and bodies of unknown owners */
    size_t held_bytes;        /* memory of the connection (h2_arrival_held_bytes) */
    size_t unsent_bytes;      /* frames that the client has not read */
    int64_t oldest_body_ms;   /* age of the oldest unfinished request; 0 = there is none */
};

/* Resets one stream as if its client had reset it, and tells the client. Does nothing and returns
 * false while a write to the socket is in progress. The request may be freed when it returns
 * true. */
bool h2_sweep_reset(h2o_req_t *request);

/* Frees the body of a request whose handler has begun; its entity is empty from now on. */
void h2_sweep_drop_body(h2o_req_t *request);

/* Calls `each` for every HTTP/2 connection of the context. `each` must not close a connection, but
 * may shut down its socket. */
void h2_sweep_look(h2o_context_t *h2o,
                   void (*each)(void *context, const struct h2_sweep_view *view), void *context);
