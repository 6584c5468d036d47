#include "gateway/edge/edge_access.h"

#include <string.h>

#include "config/base/log.h"

void edge_access_begin(struct edge_access *access, struct http_request *request, const char *route)
{
    *access = (struct edge_access){.route = route, .finish = ""};
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
    const struct log_field fields[] = {LOG_TEXT("request_id", access->request_id),
                                       LOG_TEXT("tenant", access->tenant_id),
                                       LOG_TEXT("key", access->key_id),
                                       LOG_TEXT("route", access->route),
                                       LOG_NUMBER("code", access->code),
                                       LOG_TEXT("finish", access->finish),
                                       LOG_NUMBER("prompt_tokens", access->prompt_tokens),
                                       LOG_NUMBER("cached_tokens", access->cached_tokens),
                                       LOG_NUMBER("completion_tokens", access->completion_tokens),
                                       LOG_NUMBER("ms", total_us / 1000)};
    size_t count = sizeof fields / sizeof fields[0];
    if (access->is_quiet)
        log_event(LOG_DEBUG, "request", fields, count);
    else
        log_access("request", fields, count);
}
