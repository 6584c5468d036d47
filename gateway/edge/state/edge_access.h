/* edge_access: writes the access log's line of a request that has ended, and counts the request.
 *
 *   {"time","level","component","event":"request","request_id","tenant","key","peer","method",
 *    "route","code","finish","prompt_tokens","cached_tokens","completion_tokens","bytes","ttft_ms",
 *    "ms"}
 *
 * ttft_ms is the time to the first token; it is left out when no token came. peer is written only
 * when the option access_log_peer is on.
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     formats one log line, about 0.5 µs; the log's thread writes it.
 * Not here: the rows that usage is billed from (ledger).
 */
#pragma once

#include "auth/auth.h"
#include "gateway/edge/state/edge_metrics.h"
#include "gateway/http/request.h"

struct edge_access {
    const char *route; /* the route's pattern, because a client may put anything into a path */
    const char *method;
    int64_t arrived_us;
    int64_t first_token_us; /* 0: no token came */
    uint64_t bytes;         /* of the answer, if the engine made or began it; else 0 */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    char tenant_id[LIMIT_ID_BYTES]; /* "" when the caller was not authenticated */
    char key_id[LIMIT_ID_BYTES];
    uint32_t pace_owner; /* the tenant's row of edge_pace */
    size_t body_bytes;   /* of the request, as it came */
    int code;
    const char *finish; /* "" when nothing was generated */
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t completion_tokens;
    char peer[64];
    bool is_quiet; /* health checks: counted, and logged at debug level only */
};

/* Starts the record of a request that has just come: its time, method and request id. `route` must
 * outlive the record; `request` is borrowed for the call. */
void edge_access_begin(struct edge_access *access, struct http_request *request, const char *route);
/* Copies the ids of the authenticated tenant and key. */
void edge_access_principal(struct edge_access *access, const struct principal *principal);
/* The request has ended: writes its log line and counts it. `now_us` is the loop's time. */
void edge_access_end(const struct edge_access *access, struct edge_metrics *metrics,
                     int64_t now_us);
