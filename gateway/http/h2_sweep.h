/* h2_sweep: what HTTP/2 connections hold that no handler has seen: streams that vanished before
 * their request was whole, and bodies that are not finished.
 *
 * Owns:     nothing; a look at libh2o's connections.
 * Thread:   the loop's thread.
 * Cost:     O(connections + streams) a look.
 * Not here: the judgement (listener).
 */
#pragma once

#include <stdbool.h>

#include "gateway/http/h2o_compat.h"

struct h2_sweep_view {
    h2o_socket_t *socket;
    uint32_t streams_opened;  /* since the connection began */
    uint32_t streams_waiting; /* open now, and no handler has heard of them */
    size_t body_bytes;        /* of heads and bodies that are not whole and nobody known has sent */
    size_t held_bytes;        /* what is allocated for these, and what comes on top of it */
    size_t unsent_bytes;      /* frames that the client has not taken */
    int64_t oldest_body_ms;   /* age of the oldest of them; 0 when there is none */
};

/* Resets one stream, as if its client had, and says so to it. False, and nothing is done, while a
 * write to the socket is under way: the client then reads nothing of the connection at all. The
 * request may be gone when this returns true. */
bool h2_sweep_reset(h2o_req_t *request);

/* Gives back the body of a request whose handler has begun; its entity is empty from then on. */
void h2_sweep_drop_body(h2o_req_t *request);

/* Calls `each` for every HTTP/2 connection of the context; it must not close any of them (shutting
 * down its socket is fine). */
void h2_sweep_look(h2o_context_t *h2o,
                   void (*each)(void *context, const struct h2_sweep_view *view), void *context);
