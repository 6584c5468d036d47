#include "gateway/admin/admin_state.h"

#include <stdio.h>

#include "gateway/admin/admin_list.h"
#include "gateway/admin/admin_openapi.h"
#include "gateway/edge/state/edge_json.h"

static void audit_id(const void *row, char out[LIMIT_ID_BYTES])
{
    snprintf(out, LIMIT_ID_BYTES, "%lld", (long long)((const struct audit_row *)row)->id);
}

static void audit_render(void *context, const void *row, struct buffer *out)
{
    (void)context;
    const struct audit_row *audit = row;
    const char *type = strncmp(audit->actor_key_id, "iss_", 4) == 0   ? "token"
                       : strncmp(audit->actor_key_id, "crt_", 4) == 0 ? "certificate"
                                                                      : "api_key";
    buffer_printf(out, "{\"id\":\"%lld\",\"object\":\"audit_row\",\"type\":", (long long)audit->id);
    buffer_append_json_string(out, slice_of(audit->type));
    buffer_printf(out, ",\"effective_at\":%lld,\"actor\":{\"type\":\"%s\",\"id\":",
                  (long long)(audit->at_us / 1000000), type);
    buffer_append_json_string(out, slice_of(audit->actor_key_id));
    buffer_append_text(out, ",\"subject\":");
    if (audit->actor_subject[0] != '\0')
        buffer_append_json_string(out, slice_of(audit->actor_subject));
    else
        buffer_append_text(out, "null");
    buffer_append_text(out, ",\"peer\":");
    buffer_append_json_string(out, slice_of(audit->peer));
    buffer_append_text(out, "},\"request_id\":");
    buffer_append_json_string(out, slice_of(audit->request_id));
    buffer_append_text(out, ",\"subject\":");
    buffer_append_json_string(out, slice_of(audit->subject));
    buffer_append_text(out, ",\"detail\":");
    buffer_append_text(out, audit->detail[0] != '\0' ? audit->detail : "{}");
    buffer_append_char(out, '}');
}

struct audit {
    struct tenants *tenants;
    struct audit_filter filter;
};

/* The id of an audit row is a decimal number. */
static enum status audit_page(void *context, const char *after, void *rows, size_t capacity,
                              size_t *count, bool *has_more)
{
    uint64_t id = 0;
    const struct audit *audit = context;
    if (after[0] != '\0' && edge_json_digits(slice_of(after), INT64_MAX, &id) != STATUS_OK)
        FAIL_PARAM(STATUS_INVALID, "after", "after must be the id of an audit row.");
    return tenants_audit_list(audit->tenants, &audit->filter, (int64_t)id, rows, capacity, count,
                              has_more);
}

enum status admin_state_audit(struct admin_call *call)
{
    struct admin_query query;
    TRY(admin_query_read(call->query, ADMIN_QUERY_LIST | ADMIN_QUERY_AUDIT, &query));
    struct audit audit = {auth_tenants(call->admin->auth),
                          {.since_s = query.since_s, .until_s = query.until_s}};
    memcpy(audit.filter.actor_key_id, query.actor, sizeof query.actor);
    memcpy(audit.filter.subject, query.subject, sizeof query.subject);
    memcpy(audit.filter.type, query.type, sizeof query.type);
    struct admin_list_source source = {sizeof(struct audit_row), audit_page, audit_id, audit_render,
                                       &audit};
    return admin_list_render(&source, &query, &call->out);
}

enum status admin_state_openapi(struct admin_call *call)
{
    struct admin_query query;
    TRY(admin_query_read(call->query, 0, &query));
    buffer_append_slice(&call->out, admin_openapi_file());
    return call->out.status;
}

enum status admin_state_metrics(struct admin_call *call)
{
    edge_metrics_look(call->admin->metrics, call->admin->ledger, call->admin->auth);
    metrics_render(call->admin->metrics->registry, &call->out);
    if (call->admin->probe != NULL)
        buffer_append_slice(&call->out, edge_probe_metrics(call->admin->probe));
    call->content_type = "text/plain; version=0.0.4; charset=utf-8";
    return call->out.status;
}

enum status admin_state_health(struct admin_call *call)
{
    buffer_append_text(&call->out, "{\"status\":\"ok\"}");
    return call->out.status;
}
