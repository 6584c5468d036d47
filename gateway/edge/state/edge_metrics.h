/* edge_metrics: the series that the edge counts; names and help texts stand here alone.
 *
 * Owns:     the registry of this process.
 * Thread:   any for updates; made and destroyed by edge.c.
 * Cost:     kept pointers; edge_metrics_request looks among those of its route and code.
 * Not here: who may read them (admin).
 */
#pragma once

#include "auth/identity/auth_refusals.h"
#include "auth/limits/quota_limits.h"
#include "config/base/metrics.h"
#include "config/base/service_class.h"
#include "gateway/edge/state/edge_deaths.h"

/* Why a request ended before its answer was whole. */
enum edge_cancel {
    EDGE_CANCEL_CLIENT,      /* it has left */
    EDGE_CANCEL_SLOW_READER, /* it is there and does not read */
    EDGE_CANCEL_DEADLINE,
    EDGE_CANCEL_SHUTDOWN,
    EDGE_CANCEL_ENGINE,   /* broke the protocol */
    EDGE_CANCEL_TOO_LONG, /* an answer in one piece */
    EDGE_CANCEL_MEMORY,   /* all answers in one piece */
    EDGE_CANCEL_ADMIN,
    EDGE_CANCEL_TENANT, /* it was suspended or archived */
    EDGE_CANCEL_COUNT,
};

/* Why a request was not let into the queue before the engine, or left it unanswered. */
enum edge_refusal {
    EDGE_REFUSAL_TENANT,   /* its tenant has as many waiting as it may */
    EDGE_REFUSAL_ALL,      /* all have */
    EDGE_REFUSAL_DEADLINE, /* it would not have its turn in time */
    EDGE_REFUSAL_COUNT,
};

enum { EDGE_METRICS_SERIES = 128 };

struct edge_metrics {
    struct metrics *registry;
    const struct edge_deaths *deaths; /* the parent's count; NULL: no parent */
    struct { /* banyan_http_requests_total, found without its labels being written out again */
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
    struct metric *memory_unproven; /* … */
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
    struct metric *quota_stops[QUOTA_LIMITS][2];   /* … */
    struct metric *quota_lowered[QUOTA_LIMITS];    /* … */
};

enum status edge_metrics_init(struct edge_metrics *metrics);
void edge_metrics_deinit(struct edge_metrics *metrics);
/* What is only known when somebody asks: the ledger's state, who was refused, lines dropped, the
 * heap. `auth` may be NULL. */
struct ledger;
void edge_metrics_look(struct edge_metrics *metrics, struct ledger *ledger,
                       const struct auth *auth);
/* One request is over: counts it by route (a text that stays where it is) and code, and its time.
 * The loop's thread. */
void edge_metrics_request(struct edge_metrics *metrics, const char *route, int code,
                          int64_t total_us);
