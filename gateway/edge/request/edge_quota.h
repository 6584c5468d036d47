/* edge_quota: a request and the limits of its tenant and its key: may it begin, may it go on, what
 * the client hears.
 *
 *   reserve ─┬─► 429 with limit, scope, used, requested, reset; nothing is charged
 *            └─► headers of the answer ─► each frame: watched ─► stopped, or settled at its end
 *
 * Owns:     the lease, in the request's memory; header texts.
 * Thread:   the loop's.
 * Cost:     under 1 µs a request; two compares a frame until a lease has to be extended.
 * Not here: limits and accounts (auth/limits/quota), who ends a request (edge_job).
 *
 * Where limits say on_limit: lower_class, a request that one of tokens would refuse is let in in
 * the lowest class, and an answer that meets one goes on there; its service_tier says so.
 * Else a stream whose limit is met ends behind a whole token: the engine is told to stop, what it
 * had computed by then is passed on and counted, and choices that have not ended get the
 * finish_reason "length", which every client knows; the ledger's row says "quota". Then usage and
 * [DONE] as ever.
 */
#pragma once

#include "auth/limits/quota.h"
#include "gateway/edge/engines/edge_stream.h"
#include "gateway/edge/request/edge_body.h"
#include "gateway/edge/state/edge_state.h"
#include "gateway/http/request.h"

enum { EDGE_QUOTA_HEADERS = 6 };

struct edge_quota {
    struct quota_leases leases;
    struct quota_denial denial;
    bool has_prompt; /* the lease knows the engine's count of it */
    bool is_stopped; /* a limit was met in the middle */
    bool is_lowered; /* it goes on in the lowest class: from its beginning, or from the middle */
    uint32_t begun;  /* bits of choices that have sent something, */
    uint32_t ended;  /* and their reason */
    uint32_t header_count;
    char headers[EDGE_QUOTA_HEADERS][QUOTA_DURATION_BYTES];
    const char *names[EDGE_QUOTA_HEADERS];
};

/* Charges all limits or none: RATE_REQUESTS, RATE_TOKENS, QUOTA, NO_MEMORY. Counts denials, also
 * those of shadow limits. */
enum status edge_quota_reserve(struct edge_quota *quota, struct edge *edge,
                               const struct quota_demand *demand);
/* The answer to a request that was not let in, from the thread's note: 429 with retry-after(-ms)
 * where waiting helps, x-should-retry: false where it does not. Other failures as they are. */
void edge_quota_refuse(const struct edge_quota *quota, struct http_request *request);
/* x-ratelimit-{limit,remaining,reset}-{requests,tokens} as they were when the request was let in:
 * of the tightest bucket, tenant's or key's, and none of those that neither has. Up to
 * EDGE_QUOTA_HEADERS; returns how many. */
size_t edge_quota_headers(const struct edge_quota *quota, struct http_header *out);

enum edge_quota_verdict { EDGE_QUOTA_GO, EDGE_QUOTA_STOP, EDGE_QUOTA_LOWER };
/* A frame for the client has come. STOP, once: the answer is to be stopped. LOWER, once: it is to
 * go on in the lowest class. */
enum edge_quota_verdict edge_quota_watch(struct edge_quota *quota, struct edge *edge,
                                         const struct edge_stream *stream, struct slice rest);
/* Appends a frame for each choice of a stopped stream that has not ended. `first`: the members
 * before "choices". */
void edge_quota_append_ends(const struct edge_quota *quota, enum edge_stream_form form,
                            struct slice first, bool with_null_usage, struct buffer *out);
/* An engine has worked on the request's text, or may have: it counts, whatever becomes of it. */
void edge_quota_worked(struct edge_quota *quota);
/* What was used, when the answer has its end or there will be none; later calls do nothing. */
void edge_quota_settle(struct edge_quota *quota, struct edge *edge,
                       const struct edge_stream *stream);

/* `,"member":{"limit","remaining","reset_ms","mode"}` for each limit that the tenant has, or the
 * key when it is given; remaining is null for a budget that was not used since the start or
 * midnight. */
void edge_quota_append(struct edge *edge, const char *tenant_id, const char *key_id,
                       struct buffer *out);
