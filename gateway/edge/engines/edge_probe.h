/* edge_probe: does the engine answer, which one is it, and what do its metrics say.
 *
 * Owns:     at most one check under way, the timer of the next, the engine's metrics.
 * Thread:   the loop's thread.
 * Cost:     however many ask at once, two exchanges: /internal/v1/stats and /metrics.
 * Not here: /ready's answer (edge_forward), what waits for the engine (edge_wait, edge_replay).
 *
 * Every 5 s while the engine is up; while it is not, after 50, 100 and then 200 ms.
 */
#pragma once

#include "auth/ledger/ledger.h"
#include "config/base/metrics.h"
#include "gateway/upstream/http1_client.h"

struct edge_probe;

enum { EDGE_PROBE_PROTOCOL = 1, EDGE_PROBE_INSTANCE_BYTES = 40 };

enum edge_probe_state {
    EDGE_PROBE_DOWN,
    EDGE_PROBE_UP,
    EDGE_PROBE_DRAINING, /* finishes what runs and takes nothing new */
    EDGE_PROBE_FOREIGN,  /* speaks another protocol: nothing may be sent to it */
};

/* What the last check has found. */
struct edge_probe_engine {
    enum edge_probe_state state;
    uint32_t protocol;
    char instance[EDGE_PROBE_INSTANCE_BYTES]; /* another one at each start of an engine; stays what
                                                 it was while the engine is down */
    char model[LEDGER_MODEL_BYTES];
    int64_t created_s;       /* when the model was loaded, Unix time */
    uint32_t context;        /* tokens; 0: not said */
    uint64_t finals_waiting; /* records that it keeps until they are acknowledged */
};

/* Somebody who waits for the answer; the storage is the asker's, until it is told or leaves. */
struct edge_probe_waiter {
    struct edge_probe_waiter *previous;
    struct edge_probe_waiter *next;
    void (*told)(void *context, bool is_up);
    void *context;
};

/* `gauge` becomes 1 or 0 after each check; `foreign` (may be NULL) 1 while the engine speaks
 * another protocol. */
enum status edge_probe_create(struct edge_probe **out, struct loop *loop,
                              struct http1_client *client, struct metric *gauge,
                              struct metric *foreign);
/* Nobody is told any more. Before the client is destroyed. */
void edge_probe_destroy(struct edge_probe *probe);
void edge_probe_ask(struct edge_probe *probe, struct edge_probe_waiter *waiter);
void edge_probe_leave(struct edge_probe *probe, struct edge_probe_waiter *waiter);
/* `checked` runs after every check, before the waiters are told; at most one listener. */
void edge_probe_listen(struct edge_probe *probe,
                       void (*checked)(void *context, const struct edge_probe_engine *engine),
                       void *context);
/* An exchange was cut, or could not be begun: checks at once, behind a check under way. */
void edge_probe_suspect(struct edge_probe *probe);
const struct edge_probe_engine *edge_probe_engine(const struct edge_probe *probe);
/* "up", "down", "draining" or "other protocol". */
const char *edge_probe_word(const struct edge_probe *probe);
/* The engine's own metrics as of the last check, at most 5 s old; empty while it is down. Valid
 * until the loop goes on. */
struct slice edge_probe_metrics(const struct edge_probe *probe);
