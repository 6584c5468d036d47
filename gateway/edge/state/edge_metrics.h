/* edge_metrics: the metrics that the edge counts. Their names and help texts stand in
 * edge_metrics.c alone.
 *
 * Owns:     the metrics registry of this process.
 * Thread:   any for updates of a metric; edge.c makes and destroys the registry on the loop's
 *           thread.
 * Cost:     an update uses a kept pointer; edge_metrics_request searches at most
 *           EDGE_METRICS_SERIES of them.
 * Not here: who may read the metrics (admin).
 */
#pragma once

#include "auth/identity/auth_refusals.h"
#include "auth/limits/quota_limits.h"
#include "config/base/metrics.h"
#include "config/base/service_class.h"
#include "gateway/edge/state/edge_deaths.h"

/* Why a request ended before its answer was complete. */
enum edge_cancel {
    EDGE_CANCEL_CLIENT,      /* the client has left */
    EDGE_CANCEL_SLOW_READER, /* the client is connected and does not read */
    EDGE_CANCEL_DEADLINE,
    EDGE_CANCEL_SHUTDOWN,
    EDGE_CANCEL_ENGINE,   /* the engine broke the protocol */
    EDGE_CANCEL_TOO_LONG, /* an answer that is not streamed is too long */
    EDGE_CANCEL_MEMORY,   /* the tenant's share of memory_limit is used up */
    EDGE_CANCEL_ADMIN,    /* an administrator cancelled it */
    EDGE_CANCEL_TENANT,   /* the tenant was suspended or archived */
    EDGE_CANCEL_COUNT,
};

/* Why a request was refused at the queue of the edge, or by the engine's queue. */
enum edge_refusal {
    EDGE_REFUSAL_TENANT,   /* the tenant has as many requests waiting as it may */
    EDGE_REFUSAL_ALL,      /* all tenants together have */
    EDGE_REFUSAL_DEADLINE, /* its turn would come after its deadline */
    EDGE_REFUSAL_COUNT,
};

enum { EDGE_METRICS_SERIES = 128 };

struct edge_metrics {
    struct metrics *registry;
    const struct edge_deaths *deaths; /* the parent's counts; NULL: no parent */
    /* banyan_http_requests_total by route and code, so that an update formats no labels. */
    struct {
        const char *route;
        int code;
        struct metric *metric;
    } totals[EDGE_METRICS_SERIES];
    uint32_t total_count;
    struct metric *request_seconds;
    struct metric *first_token_seconds[SERVICE_CLASS_COUNT]; /* {class} */
    struct metric *downgrades;
    struct metric *overhead_seconds;
    struct metric *tokens_prompt;
    struct metric *tokens_cached;
    struct metric *tokens_generated;
    struct metric *estimated_total;
    struct metric *upstream_up;
    struct metric *ledger_lag_rows;
    struct metric *ledger_bytes;
    struct metric *ledger_kept_since;
    struct metric *ledger_deleted;
    struct metric *log_dropped;
    struct metric *heap_bytes;
    struct metric *memory_refused;
    struct metric *memory_share_refused;
    struct metric *requests_paced;
    struct metric *memory_tenants;  /* {owner} */
    struct metric *memory_unproven; /* {owner} */
    struct metric *jobs_running;
    struct metric *upstream_foreign;
    struct metric *jobs_waiting[SERVICE_CLASS_COUNT];                       /* {class} */
    struct metric *queue_refusals[SERVICE_CLASS_COUNT][EDGE_REFUSAL_COUNT]; /* {class, why} */
    struct metric *sends_again;
    struct metric *rows_replayed;
    struct metric *rows_awaited;
    struct metric *readers_paused;
    struct metric *cancelled[EDGE_CANCEL_COUNT]; /* {reason} */
    struct metric *key_fetches[2];               /* {result}: failed, ok */
    struct metric *keys_failing;
    struct metric *auth_refusals[AUTH_REFUSALS];   /* {method,reason} */
    struct metric *quota_denials[QUOTA_LIMITS][2]; /* {limit,mode}: enforce, shadow */
    struct metric *quota_stops[QUOTA_LIMITS][2];   /* {limit,mode} */
    struct metric *quota_lowered[QUOTA_LIMITS];    /* {limit} */
};

/* Makes the registry and registers every metric. NO_MEMORY. */
enum status edge_metrics_init(struct edge_metrics *metrics);
void edge_metrics_deinit(struct edge_metrics *metrics);
/* Updates the metrics that are only read when the page is asked for: the ledger's state, refused
 * credentials, dropped log lines, the heap, ended processes. `auth` may be NULL. */
struct ledger;
void edge_metrics_look(struct edge_metrics *metrics, struct ledger *ledger,
                       const struct auth *auth);
/* A request has ended: counts it by route and HTTP code, and observes its duration. `route` must be
 * a text that is never freed, because it is compared by address. The loop's thread. */
void edge_metrics_request(struct edge_metrics *metrics, const char *route, int code,
                          int64_t total_us);
