/* adapter_ghosts: requests that a server may still compute although their clients have left.
 *
 * A server notices late, or not at all, that a connection was closed: llama.cpp computes a prompt
 * to its end. Such a request is a ghost. It takes one of the places at the server, so it counts
 * against the window until the server says that it computes no more than what we have sent.
 *
 *   cut ─► add ─► question after 100 ms, then after 200, 400 … 2,000 ms
 *                    server's gauge − our requests = ghosts, at most as many as were cut
 *
 * Owns:     the number of ghosts, one question at a time, a timer.
 * Thread:   the loop's.
 * Cost:     one small request a question; none while there are no ghosts.
 * Not here: how a kind tells its gauge (adapter_kind).
 */
#pragma once

#include "config/base/metrics.h"
#include "gateway/adapter/adapter_kind.h"
#include "gateway/http/loop.h"
#include "gateway/upstream/http1_client.h"

struct adapter_ghosts;

struct adapter_ghosts_options {
    struct loop *loop;
    struct http1_client *client;
    const struct adapter_kind *kind;
    const char *prefix;                 /* path before that of the gauge */
    const char *head;                   /* everything of a request's head behind its path */
    uint32_t (*running)(void *context); /* our requests that the server may be computing */
    void *context;
    struct metric *gauge;
};

/* The strings and the client must outlive the ghosts. NO_MEMORY. */
enum status adapter_ghosts_create(struct adapter_ghosts **out,
                                  const struct adapter_ghosts_options *options);
/* Call it after the client is destroyed, or before it is used for the last time. */
void adapter_ghosts_destroy(struct adapter_ghosts *ghosts);
/* A request that was sent was cut from here. No effect where the kind has no gauge: nobody would
 * ever say that the ghost is gone. */
void adapter_ghosts_add(struct adapter_ghosts *ghosts);
uint32_t adapter_ghosts_count(const struct adapter_ghosts *ghosts);
