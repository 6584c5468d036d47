#include "gateway/edge/request/edge_quota.h"

#include <stdio.h>

#include "config/base/log.h"
#include "gateway/edge/engines/edge_probe.h"
#include "gateway/http/http_error.h"

enum {
    RETRY_MS_MOST = 120000, /* client libraries do not wait longer, they give up */
    RETRY_MS_NOW = 1000,    /* when the wait is for the end of another request */
};

/* --- before --- */

static void reserve_tell(const struct edge_quota *quota, struct edge *edge, const char *tenant_id,
                         bool is_denied)
{
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        if ((quota->denial.shadow & 1u << i) == 0)
            continue;
        metric_add(edge->metrics.quota_denials[i][true], 1);
        LOG(LOG_INFO, "quota_shadow", LOG_TEXT("tenant", tenant_id),
            LOG_TEXT("limit", quota_limits_form((enum quota_limit)i)->member));
    }
    if (is_denied)
        metric_add(edge->metrics.quota_denials[quota->denial.limit][false], 1);
}

/* Counts the limits that lower the request; returns whether this is the first time. */
static bool lowered_tell(struct edge_quota *quota, struct edge *edge, uint32_t lowered)
{
    bool is_first = lowered != 0 && !quota->is_lowered;
    for (int i = 0; i < QUOTA_LIMITS; i++)
        if ((lowered & 1u << i) != 0)
            metric_add(edge->metrics.quota_lowered[i], 1);
    quota->is_lowered |= lowered != 0;
    return is_first;
}

static void header_number(struct edge_quota *quota, const char *name, int64_t number)
{
    uint32_t at = quota->header_count++;
    quota->names[at] = name;
    snprintf(quota->headers[at], sizeof quota->headers[at], "%lld", (long long)number);
}

static void header_reset(struct edge_quota *quota, const char *name, int64_t us)
{
    uint32_t at = quota->header_count++;
    quota->names[at] = name;
    quota_duration(us, quota->headers[at]);
}

/* Of the limits that this header shows, the one with the least left, the tenant's or the key's. The
 * result's `limit` is 0 when neither has one. */
static struct quota_standing headers_tightest(struct edge *edge, const struct quota_demand *demand,
                                              enum quota_header header)
{
    const char *const keys[QUOTA_SCOPES] = {[QUOTA_KEY] = demand->key_id};
    struct quota_standing out = {0};
    for (int i = 0; i < QUOTA_LIMITS * QUOTA_SCOPES; i++) {
        enum quota_limit limit = (enum quota_limit)(i % QUOTA_LIMITS);
        if (quota_limits_form(limit)->header != header)
            continue;
        struct quota_standing at =
            quota_standing(edge->quota, demand->tenant_id, keys[i / QUOTA_LIMITS], limit);
        if (at.limit != 0 && (out.limit == 0 || at.remaining < out.remaining))
            out = at;
    }
    return out;
}

static void headers_make(struct edge_quota *quota, struct edge *edge,
                         const struct quota_demand *demand)
{
    static const struct {
        enum quota_header header;
        const char *limit;
        const char *remaining;
        const char *reset;
    } shown[] = {
        {QUOTA_AS_REQUESTS, "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
         "x-ratelimit-reset-requests"},
        {QUOTA_AS_TOKENS, "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens",
         "x-ratelimit-reset-tokens"},
    };
    quota->header_count = 0;
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
        struct quota_standing standing = headers_tightest(edge, demand, shown[i].header);
        if (standing.limit == 0)
            continue;
        header_number(quota, shown[i].limit, standing.limit);
        header_number(quota, shown[i].remaining, standing.remaining);
        header_reset(quota, shown[i].reset, standing.reset_us);
    }
}

enum status edge_quota_reserve(struct edge_quota *quota, struct edge *edge,
                               const struct quota_demand *demand)
{
    struct quota_demand priced = *demand;
    quota->is_unwatched = demand->has_no_output;
    if (demand->model != NULL && demand->model[0] == '\0')
        priced.model = edge_probe_engine(edge->probe)->model;
    enum status status = quota_reserve(edge->quota, &priced, &quota->leases, &quota->denial);
    if (status == STATUS_NO_MEMORY)
        return status;
    reserve_tell(quota, edge, demand->tenant_id, status != STATUS_OK);
    if (status == STATUS_OK)
        (void)lowered_tell(quota, edge, quota->denial.lowered);
    headers_make(quota, edge, demand);
    return status;
}

size_t edge_quota_headers(const struct edge_quota *quota, struct http_header *out)
{
    for (uint32_t i = 0; i < quota->header_count; i++)
        out[i] = (struct http_header){quota->names[i], slice_of(quota->headers[i])};
    return quota->header_count;
}

void edge_quota_refuse(const struct edge_quota *quota, struct http_request *request)
{
    struct http_header headers[EDGE_QUOTA_HEADERS];
    enum status status = status_note()->status;
    const struct quota_denial *denial = &quota->denial;
    if (status != STATUS_RATE_REQUESTS && status != STATUS_RATE_TOKENS && status != STATUS_QUOTA) {
        http_respond_failure(request);
        return;
    }
    int64_t ms = denial->reset_us == 0 ? RETRY_MS_NOW : (denial->reset_us + 999) / 1000;
    ms = ms < RETRY_MS_MOST ? ms : RETRY_MS_MOST;
    bool is_useless = denial->is_never || status == STATUS_QUOTA;
    http_respond_limited(request, is_useless ? 0 : (uint32_t)ms, headers,
                         edge_quota_headers(quota, headers));
}

/* --- while it runs --- */

/* Notes which choice a frame belongs to, and whether it has a finish_reason. A text search is
 * enough, because quotes inside JSON strings are escaped. */
static void watch_choice(struct edge_quota *quota, struct slice rest)
{
    static const char index[] = "\"index\":";
    static const char reason[] = "\"finish_reason\":\"";
    const char *found = memmem(rest.bytes, rest.length, index, sizeof index - 1);
    unsigned choice = 0;
    for (size_t at = found != NULL ? (size_t)(found - rest.bytes) + sizeof index - 1 : rest.length;
         at < rest.length && rest.bytes[at] >= '0' && rest.bytes[at] <= '9'; at++)
        choice = choice * 10 + (unsigned)(rest.bytes[at] - '0');
    uint32_t bit = 1u << (choice & 31u);
    quota->begun |= bit;
    if (memmem(rest.bytes, rest.length, reason, sizeof reason - 1) != NULL)
        quota->ended |= bit;
}

enum edge_quota_verdict edge_quota_watch(struct edge_quota *quota, struct edge *edge,
                                         const struct edge_stream *stream, struct slice rest)
{
    struct quota_denial denial;
    if (quota->is_unwatched)
        return EDGE_QUOTA_GO;
    if (!quota->has_prompt) {
        quota->has_prompt = true;
        quota_prompt(edge->quota, &quota->leases, stream->final.prompt_tokens,
                     stream->final.cached_tokens);
    }
    watch_choice(quota, rest);
    if (quota->is_stopped)
        return EDGE_QUOTA_GO;
    bool may_go_on = quota_extend(edge->quota, &quota->leases, stream->tokens_seen, &denial);
    for (int i = 0; i < QUOTA_LIMITS && denial.shadow != 0; i++)
        metric_add(edge->metrics.quota_stops[i][true], (denial.shadow & 1u << i) != 0);
    if (!may_go_on) {
        quota->is_stopped = true;
        metric_add(edge->metrics.quota_stops[denial.limit][false], 1);
        return EDGE_QUOTA_STOP;
    }
    return lowered_tell(quota, edge, denial.lowered) ? EDGE_QUOTA_LOWER : EDGE_QUOTA_GO;
}

void edge_quota_append_ends(const struct edge_quota *quota, enum edge_stream_form form,
                            struct slice first, bool with_null_usage, struct buffer *out)
{
    uint32_t open = (quota->begun != 0 ? quota->begun : 1) & ~quota->ended;
    _Static_assert(LIMIT_ANSWERS <= 32, "a choice is a bit of begun and ended");
    for (int i = 0; i < LIMIT_ANSWERS && quota->is_stopped && form != EDGE_STREAM_GENERATION; i++) {
        if ((open & 1u << i) == 0)
            continue;
        buffer_append_text(out, "data: {");
        buffer_append_slice(out, first);
        buffer_printf(out, "\"choices\":[{\"index\":%d,%s,\"logprobs\":null,", i,
                      form == EDGE_STREAM_CHAT ? "\"delta\":{}" : "\"text\":\"\"");
        buffer_append_text(out, "\"finish_reason\":\"length\"}]");
        buffer_append_text(out, with_null_usage ? ",\"usage\":null}\n\n" : "}\n\n");
    }
}

void edge_quota_worked(struct edge_quota *quota)
{
    quota_worked(&quota->leases);
}

void edge_quota_settle(struct edge_quota *quota, struct edge *edge,
                       const struct edge_stream *stream)
{
    const struct edge_final *final = &stream->final;
    quota_settle(edge->quota, &quota->leases, final->prompt_tokens, final->cached_tokens,
                 stream->has_final ? final->completion_tokens : stream->tokens_seen);
}

/* --- GET /v1/me --- */

void edge_quota_append(struct edge *edge, const char *tenant_id, const char *key_id,
                       struct buffer *out)
{
    for (int i = 0; i < QUOTA_LIMITS; i++) {
        struct quota_standing at =
            quota_standing(edge->quota, tenant_id, key_id, (enum quota_limit)i);
        if (at.limit == 0)
            continue;
        buffer_printf(out, ",\"%s\":{\"limit\":%lld,\"remaining\":",
                      quota_limits_form((enum quota_limit)i)->member, (long long)at.limit);
        if (at.is_known)
            buffer_append_number(out, (uint64_t)at.remaining);
        else
            buffer_append_text(out, "null");
        buffer_printf(out, ",\"reset_ms\":%lld,\"mode\":\"%s\"}",
                      (long long)((at.reset_us + 999) / 1000), at.is_shadow ? "shadow" : "enforce");
    }
}
