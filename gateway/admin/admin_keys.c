#include "gateway/admin/admin_keys.h"

#include "config/base/clock.h"
#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_list.h"

static void render_time(struct buffer *out, const char *name, int64_t time_s)
{
    if (time_s != 0)
        buffer_printf(out, ",\"%s\":%lld", name, (long long)time_s);
    else
        buffer_printf(out, ",\"%s\":null", name);
}

/* All members but the closing brace. */
static void render_members(const struct tenant_key *key, struct buffer *out)
{
    int64_t now_s = clock_wall_us(clock_system()) / 1000000;
    bool is_expired = key->expires_at_s != 0 && key->expires_at_s <= now_s;
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(key->id));
    buffer_append_text(out, ",\"object\":\"key\",\"tenant_id\":");
    buffer_append_json_string(out, slice_of(key->tenant_id));
    buffer_append_text(out, ",\"name\":");
    buffer_append_json_string(out, slice_of(key->name));
    buffer_append_text(out, ",\"redacted_value\":");
    buffer_append_json_string(out, slice_of(key->redacted));
    buffer_printf(out, ",\"state\":\"%s\"",
                  key->revoked_at_s != 0 ? "revoked"
                  : is_expired           ? "expired"
                                         : "active");
    render_time(out, "created_at", key->created_at_s);
    render_time(out, "expires_at", key->expires_at_s);
    render_time(out, "revoked_at", key->revoked_at_s);
}

static void render_key(const void *row, struct buffer *out)
{
    render_members(row, out);
    buffer_append_char(out, '}');
}

enum status admin_keys_create(struct admin_call *call)
{
    struct admin_body_field fields[] = {
        {.name = "name", .kind = ADMIN_BODY_TEXT, .most = LIMIT_NAME_BYTES - 1},
    };
    TRY(admin_body_read(http_body(call->request), fields, 1));
    struct tenant_key key;
    char value[LIMIT_KEY_BYTES];
    TRY(tenants_key_create(
        auth_tenants(call->admin->auth), &call->actor, http_path_argument(call->request, 0),
        fields[0].is_given ? slice_of(fields[0].text) : SLICE("unnamed"), 0, &key, value));
    call->code = 201;
    render_members(&key, &call->out);
    buffer_append_text(&call->out, ",\"key\":");
    buffer_append_json_string(&call->out, slice_of(value));
    buffer_append_char(&call->out, '}');
    explicit_bzero(value, sizeof value);
    return call->out.status;
}

struct list_context {
    struct tenants *tenants;
    struct slice tenant_id;
};

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    const struct list_context *list = context;
    return tenants_key_list(list->tenants, list->tenant_id, slice_of(after), rows, capacity, count,
                            has_more);
}

static void list_id(const void *row, char out[LIMIT_ID_BYTES])
{
    memcpy(out, ((const struct tenant_key *)row)->id, LIMIT_ID_BYTES);
}

enum status admin_keys_list(struct admin_call *call)
{
    struct admin_list_query query;
    TRY(admin_list_query_read(http_query(call->request), &query));
    struct list_context list = {auth_tenants(call->admin->auth),
                                http_path_argument(call->request, 0)};
    struct tenant tenant;
    TRY(tenants_get(list.tenants, list.tenant_id, &tenant));
    struct admin_list_source source = {sizeof(struct tenant_key), list_page, list_id, render_key,
                                       &list};
    return admin_list_render(&source, &query, &call->out);
}

enum status admin_keys_revoke(struct admin_call *call)
{
    struct tenant_key key;
    TRY(tenants_key_revoke(auth_tenants(call->admin->auth), &call->actor,
                           http_path_argument(call->request, 0),
                           http_path_argument(call->request, 1), &key));
    render_key(&key, &call->out);
    return call->out.status;
}
