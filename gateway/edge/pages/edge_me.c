#include "gateway/edge/pages/edge_me.h"

#include <stdio.h>

#include "config/base/clock.h"
#include "gateway/edge/request/edge_quota.h"

enum { DAY_S = 86400 };

static void render_time(const char *name, int64_t time_s, struct buffer *out)
{
    if (time_s != 0)
        buffer_printf(out, ",\"%s\":%lld", name, (long long)time_s);
    else
        buffer_printf(out, ",\"%s\":null", name);
}

static void render_account(const struct tenant *tenant, const struct tenant_key *key,
                           const struct principal *principal, struct buffer *out)
{
    buffer_printf(out, "{\"object\":\"me\",\"tenant\":{\"id\":\"%s\",\"name\":", tenant->id);
    buffer_append_json_string(out, slice_of(tenant->name));
    buffer_printf(out, ",\"default_class\":\"%s\",\"best_class\":\"%s\"",
                  service_class_name(principal->default_class),
                  service_class_name(principal->best_class));
    buffer_append_text(out, ",\"models\":");
    tenant_models_append(tenant, out);
    buffer_printf(out, "},\"key\":{\"id\":\"%s\",\"name\":", key->id);
    buffer_append_json_string(out, slice_of(key->name));
    buffer_append_text(out, ",\"redacted\":");
    buffer_append_json_string(out, slice_of(key->redacted));
    buffer_append_text(out, ",\"scopes\":");
    auth_scopes_append(key->scopes, out);
    render_time("created_at", key->created_at_s, out);
    render_time("expires_at", key->expires_at_s, out);
}

static void render_usage(struct edge_usage_call *call)
{
    const struct ledger_usage_page *page = &call->task.page;
    static const struct ledger_usage_row nothing;
    const struct ledger_usage_row *row = page->count != 0 ? &page->rows[0] : &nothing;
    buffer_printf(&call->out,
                  ",\"usage_today\":{\"start_time\":%lld,\"num_model_requests\":%lld,"
                  "\"input_tokens\":%lld,\"input_cached_tokens\":%lld,\"output_tokens\":%lld},"
                  "\"cache\":{\"prompt_tokens\":%lld,\"cached_tokens\":%lld}}",
                  (long long)call->form.start_s, (long long)row->requests,
                  (long long)row->prompt_tokens, (long long)row->cached_tokens,
                  (long long)row->completion_tokens, (long long)row->prompt_tokens,
                  (long long)row->cached_tokens);
}

enum status edge_me_handle(struct edge *edge, struct http_request *request,
                           const struct edge_access *access, const struct principal *principal)
{
    struct tenant tenant;
    struct tenant_key key;
    struct tenants *tenants = auth_tenants(edge->auth);
    TRY(tenants_get(tenants, slice_of(principal->tenant_id), &tenant));
    TRY(auth_key_about(edge->auth, principal, &key));
    struct edge_usage_call *call = NULL;
    TRY(edge_usage_create(&call, edge, request, access, principal));
    render_account(&tenant, &key, principal, &call->out);
    buffer_append_text(&call->out, ",\"limits\":{\"object\":\"key.limits\"");
    edge_quota_append(edge, principal->tenant_id, principal->key_id, &call->out);
    buffer_printf(&call->out, "}},\"limits\":{\"request_timeout_s\":%lld,\"body_bytes\":%lld",
                  (long long)edge->config->request_timeout_s, (long long)edge->config->body_limit);
    edge_quota_append(edge, principal->tenant_id, NULL, &call->out);
    buffer_append_char(&call->out, '}');
    int64_t now_s = clock_wall_us(clock_system()) / 1000000;
    call->form = (struct edge_usage_form){
        .start_s = now_s - now_s % DAY_S, .end_s = now_s + 1, .width_s = DAY_S, .buckets = 1};
    snprintf(call->task.query.key_id, sizeof call->task.query.key_id, "%s", principal->key_id);
    call->render = render_usage;
    return edge_usage_start(call);
}
