#include "gateway/edge/state/edge_access.h"

#include <string.h>

#include "config/base/log.h"

enum { FIELDS_MAX = 16 };

/* Returns one of the known methods or "other", because a client may write anything there. */
static const char *begin_method(struct slice method)
{
    static const char *const known[] = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (slice_is(method, known[i]))
            return known[i];
    }
    return "other";
}

void edge_access_begin(struct edge_access *access, struct http_request *request, const char *route)
{
    *access = (struct edge_access){.route = route,
                                   .method = begin_method(http_method(request)),
                                   .body_bytes = http_body(request).length,
                                   .finish = ""};
    access->arrived_us = loop_now_us(http_loop(request));
    struct slice id = http_request_id(request);
    ASSERT(id.length < sizeof access->request_id);
    memcpy(access->request_id, id.bytes, id.length);
}

void edge_access_principal(struct edge_access *access, const struct principal *principal)
{
    memcpy(access->tenant_id, principal->tenant_id, sizeof access->tenant_id);
    memcpy(access->key_id, principal->key_id, sizeof access->key_id);
}

void edge_access_end(const struct edge_access *access, struct edge_metrics *metrics, int64_t now_us)
{
    int64_t total_us = now_us - access->arrived_us;
    edge_metrics_request(metrics, access->route, access->code, total_us);
    struct log_field fields[FIELDS_MAX];
    size_t count = 0;
    fields[count++] = LOG_TEXT("request_id", access->request_id);
    fields[count++] = LOG_TEXT("tenant", access->tenant_id);
    fields[count++] = LOG_TEXT("key", access->key_id);
    if (access->peer[0] != '\0')
        fields[count++] = LOG_TEXT("peer", access->peer);
    fields[count++] = LOG_TEXT("method", access->method);
    fields[count++] = LOG_TEXT("route", access->route);
    fields[count++] = LOG_NUMBER("code", access->code);
    fields[count++] = LOG_TEXT("finish", access->finish);
    fields[count++] = LOG_NUMBER("prompt_tokens", access->prompt_tokens);
    fields[count++] = LOG_NUMBER("cached_tokens", access->cached_tokens);
    fields[count++] = LOG_NUMBER("completion_tokens", access->completion_tokens);
    fields[count++] = LOG_NUMBER("bytes", access->bytes);
    if (access->first_token_us != 0)
        fields[count++] =
            LOG_NUMBER("ttft_ms", (access->first_token_us - access->arrived_us) / 1000);
    fields[count++] = LOG_NUMBER("ms", total_us / 1000);
    ASSERT(count <= FIELDS_MAX);
    if (access->is_quiet)
        log_event(LOG_DEBUG, "request", fields, count);
    else
        log_access("request", fields, count);
}
