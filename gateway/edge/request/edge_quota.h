/* edge_quota: applies the limits of tenant and key to a request: whether it may begin, whether it
 * may go on, and what the client is told.
 *
 *   reserve ─┬─► 429 with limit, scope, used, requested, reset; nothing is charged
 *            └─► headers of the answer ─► each frame is watched ─► stopped, or settled at its end
 *
 * Owns:     the request's leases; the texts of the answer's headers.
 * Thread:   the loop's.
 * Cost:     under 1 µs a request; two comparisons a frame until a lease has to be extended.
 * Not here: limits and accounts (auth/limits/quota), ending a request (edge_job).
 *
 * A plan or a tenant's limits may say on_limit: lower_class. Then a request that a limit on tokens
 * would refuse begins in the lowest class, and a running answer that meets one goes on in the
 * lowest class; its service_tier says so.
 *
 * Otherwise an answer whose limit is met ends after a whole token. The engine is told to stop, and
 * what it had computed by then is passed on and counted. Choices that have not ended get the
 * finish_reason "length", which every client knows; the ledger's row says "quota". Usage and [DONE]
 * follow as usual.
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
    bool has_prompt;   /* the leases have the engine's count of the prompt's tokens */
    bool is_unwatched; /* it generates no tokens, so no limit is met before its end */
    bool is_stopped;   /* a limit was met in the middle of the answer */
    bool is_lowered;   /* the request is in the lowest class, from its beginning or later */
    uint32_t begun;    /* a bit for each choice of which a frame has come */
    uint32_t ended;    /* a bit for each choice whose finish_reason has come */
    uint32_t header_count;
    char headers[EDGE_QUOTA_HEADERS][QUOTA_DURATION_BYTES];
    const char *names[EDGE_QUOTA_HEADERS];
};

/* Reserves from all limits or from none. RATE_REQUESTS, RATE_TOKENS or QUOTA when a limit refuses;
 * NO_MEMORY. Counts denials in the metrics, those of shadow limits too. */
enum status edge_quota_reserve(struct edge_quota *quota, struct edge *edge,
                               const struct quota_demand *demand);
/* Answers a request that was refused, from the thread's error note. A limit's refusal is 429, with
 * retry-after and retry-after-ms where waiting helps and x-should-retry: false where it does not.
 * Other failures are answered as usual. */
void edge_quota_refuse(const struct edge_quota *quota, struct http_request *request);
/* Fills in x-ratelimit-{limit,remaining,reset}-{requests,tokens} as they were when the request was
 * reserved. Each kind shows the limit with the least left, the tenant's or the key's; a kind that
 * neither has gives no header. Returns how many headers there are, at most EDGE_QUOTA_HEADERS;
 * their texts live as long as `quota`. */
size_t edge_quota_headers(const struct edge_quota *quota, struct http_header *out);

enum edge_quota_verdict { EDGE_QUOTA_GO, EDGE_QUOTA_STOP, EDGE_QUOTA_LOWER };
/* Call it for each frame for the client. Returns STOP once when the answer must be stopped, and
 * LOWER once when it must go on in the lowest class; otherwise GO. */
enum edge_quota_verdict edge_quota_watch(struct edge_quota *quota, struct edge *edge,
                                         const struct edge_stream *stream, struct slice rest);
/* Appends a frame for each choice of a stopped stream that has not ended. `first`: the members
 * before "choices". */
void edge_quota_append_ends(const struct edge_quota *quota, enum edge_stream_form form,
                            struct slice first, bool with_null_usage, struct buffer *out);
/* An engine has worked, or may have worked, on the request's text: the request is charged whatever
 * becomes of it. */
void edge_quota_worked(struct edge_quota *quota);
/* Charges what was used and gives back the rest, at the end of the answer. Later calls do nothing.
 * */
void edge_quota_settle(struct edge_quota *quota, struct edge *edge,
                       const struct edge_stream *stream);

/* For GET /v1/me: appends `,"member":{"limit","remaining","reset_ms","mode"}` for each limit of the
 * tenant or, with `key_id`, of the key. `remaining` is null for a budget whose sums have not been
 * read since the start of the edge or since midnight. */
void edge_quota_append(struct edge *edge, const char *tenant_id, const char *key_id,
                       struct buffer *out);
