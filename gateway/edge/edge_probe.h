/* edge_probe: does the engine answer, and what do its metrics say.
 *
 * Owns:     at most one check under way, a timer that makes one every 5 s, the engine's metrics.
 * Thread:   the loop's thread.
 * Cost:     however many ask at once, one exchange.
 * Not here: /ready's answer (edge_forward).
 */
#pragma once

#include "config/base/metrics.h"
#include "gateway/upstream/http1_client.h"

struct edge_probe;

/* Somebody who waits for the answer; the storage is the asker's, until it is told or leaves. */
struct edge_probe_waiter {
    struct edge_probe_waiter *previous;
    struct edge_probe_waiter *next;
    void (*told)(void *context, bool is_up);
    void *context;
};

/* `gauge` becomes 1 or 0 after each check. */
enum status edge_probe_create(struct edge_probe **out, struct loop *loop,
                              struct http1_client *client, struct metric *gauge);
/* Nobody is told any more. Before the client is destroyed. */
void edge_probe_destroy(struct edge_probe *probe);
void edge_probe_ask(struct edge_probe *probe, struct edge_probe_waiter *waiter);
void edge_probe_leave(struct edge_probe *probe, struct edge_probe_waiter *waiter);
/* The engine's own metrics as of the last check, at most 5 s old; empty while it is down. Valid
 * until the loop goes on. */
struct slice edge_probe_metrics(const struct edge_probe *probe);
