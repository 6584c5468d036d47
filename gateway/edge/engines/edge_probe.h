/* edge_probe: checks the engine's health: whether it answers, which engine it is, and its metrics.
 *
 * Owns:     at most one check under way, the timer of the next one, the engine's metrics.
 * Thread:   the loop's thread.
 * Cost:     two exchanges a check (/internal/v1/stats and /metrics), however many callers wait for
 *           it.
 * Not here: /ready's answer (edge_forward), what waits for the engine (edge_wait, edge_replay).
 *
 * A check runs every 5 s while the engine is up. While it is not, the next checks follow after 50
 * ms, 100 ms and then every 200 ms.
 */
#pragma once

#include "auth/ledger/ledger.h"
#include "config/base/limits_upstream.h"
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

/* A model that the engine answers for. */
struct edge_probe_model {
    char id[LEDGER_MODEL_BYTES];
    int64_t created_s; /* when the model was loaded, Unix time */
    uint32_t context;  /* the longest sequence in tokens; 0: the engine did not say */
};

/* The result of the last check. While the engine is down, all but `state` keep their last value. */
struct edge_probe_engine {
    enum edge_probe_state state;
    uint32_t protocol;
    char instance[EDGE_PROBE_INSTANCE_BYTES]; /* a new one at each start of an engine */
    char model[LEDGER_MODEL_BYTES];           /* of requests that name none */
    struct edge_probe_model models[LIMIT_POOL_ENGINES];
    uint32_t model_count;
    uint64_t finals_waiting; /* records that the engine keeps until they are acknowledged */
};

/* A caller that waits for a check's result. The caller owns the storage and keeps it until `told`
 * is called or edge_probe_leave returns. */
struct edge_probe_waiter {
    struct edge_probe_waiter *previous;
    struct edge_probe_waiter *next;
    void (*told)(void *context, bool is_up);
    void *context;
};

/* Makes the checker; the first check starts with the loop. `gauge` becomes 1 after a check that
 * finds the engine up, else 0. `foreign`, which may be NULL, is 1 while the engine speaks another
 * protocol. NO_MEMORY. */
enum status edge_probe_create(struct edge_probe **out, struct loop *loop,
                              struct http1_client *client, struct metric *gauge,
                              struct metric *foreign);
/* Ends all checks without calling anybody. Call it before the client is destroyed. */
void edge_probe_destroy(struct edge_probe *probe);
/* Starts a check, or joins the one under way; waiter->told gets the result, perhaps before this
 * returns. */
void edge_probe_ask(struct edge_probe *probe, struct edge_probe_waiter *waiter);
/* Stops waiting. */
void edge_probe_leave(struct edge_probe *probe, struct edge_probe_waiter *waiter);
/* Sets the one function that runs after every check, before the waiters are told. */
void edge_probe_listen(struct edge_probe *probe,
                       void (*checked)(void *context, const struct edge_probe_engine *engine),
                       void *context);
/* An exchange with the engine broke: checks at once, or once more after a check under way. */
void edge_probe_suspect(struct edge_probe *probe);
/* The last result; valid as long as `probe`. */
const struct edge_probe_engine *edge_probe_engine(const struct edge_probe *probe);
/* `model` if the engine serves it, else the model of requests that name none; "" before the first
 * engine. */
const char *edge_probe_served(const struct edge_probe *probe, const char *model);
/* "up", "down", "draining" or "other protocol". */
const char *edge_probe_word(const struct edge_probe *probe);
/* The text of the engine's own metrics as of the last check; empty while the engine is not up.
 * Valid until the caller returns to the loop. */
struct slice edge_probe_metrics(const struct edge_probe *probe);
