/* edge_metrics: the series that the edge counts; names and help texts stand here alone.
 *
 * Owns:     the registry of this process.
 * Thread:   any for updates; made and destroyed by edge.c.
 * Cost:     edge_metrics_request looks its series up by label; the others are kept pointers.
 * Not here: who may read them (admin).
 */
#pragma once

#include "config/base/metrics.h"

struct edge_metrics {
    struct metrics *registry;
    struct metric *request_seconds;
    struct metric *first_token_seconds; /* {class="standard"} */
    struct metric *overhead_seconds;
    struct metric *tokens_prompt;
    struct metric *tokens_cached;
    struct metric *tokens_generated;
    struct metric *estimated_total;
    struct metric *upstream_up;
    struct metric *ledger_lag_rows;
    struct metric *heap_bytes;
    struct metric *jobs_running;
};

enum status edge_metrics_init(struct edge_metrics *metrics);
void edge_metrics_deinit(struct edge_metrics *metrics);
/* One request is over: counts it by route and code, and its time. */
void edge_metrics_request(struct edge_metrics *metrics, const char *route, int code,
                          int64_t total_us);
