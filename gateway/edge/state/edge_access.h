/* edge_access: the access log's line and the counters of one request that is over.
 *
 *   {"time","level","component","event":"request","request_id","tenant","key","peer","method",
 *    "route","code","finish","prompt_tokens","cached_tokens","completion_tokens","bytes","ttft_ms",
 *    "ms"}    ttft_ms only where a token came, peer only with access_log_peer
 *
 * Owns:     nothing.
 * Thread:   the loop's thread.
 * Cost:     formats one log line, about 0.5 µs; a thread writes it.
 * Not here: rows that are charged (ledger).
 */
#pragma once

#include "auth/auth.h"
#include "gateway/edge/state/edge_metrics.h"
#include "gateway/http/request.h"

struct edge_access {
    const char *route; /* the route's pattern: a path itself may hold anything */
    const char *method;
    int64_t arrived_us;
    int64_t first_token_us; /* 0: none came */
    uint64_t bytes;         /* of an answer that the engine made or began; others are a line */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    char tenant_id[LIMIT_ID_BYTES]; /* "" when nobody was authenticated */
    char key_id[LIMIT_ID_BYTES];
    uint32_t pace_owner; /* the tenant's row of edge_pace */
    int code;
    const char *finish; /* "" when nothing was generated */
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t completion_tokens;
    char peer[64];
    bool is_quiet; /* health checks: counted, and logged at debug level only */
};

/* `request` is borrowed for the call. */
void edge_access_begin(struct edge_access *access, struct http_request *request, const char *route);
void edge_access_principal(struct edge_access *access, const struct principal *principal);
void edge_access_end(const struct edge_access *access, struct edge_metrics *metrics,
                     int64_t now_us);
