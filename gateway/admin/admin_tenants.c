#include "gateway/admin/admin_tenants.h"

#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_list.h"

enum { WEIGHT_DEFAULT = 100, WEIGHT_MAX = 1000 };

static void render_tenant(const void *row, struct buffer *out)
{
    static const char *const states[] = {"active", "suspended", "archived"};
    const struct tenant *tenant = row;
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(tenant->id));
    buffer_append_text(out, ",\"object\":\"tenant\",\"name\":");
    buffer_append_json_string(out, slice_of(tenant->name));
    buffer_printf(out, ",\"state\":\"%s\",\"weight\":%u,\"created_at\":%lld}",
                  states[tenant->state], tenant->weight, (long long)tenant->created_at_s);
}

enum status admin_tenants_create(struct admin_call *call)
{
    struct admin_body_field fields[] = {
        {.name = "name",
         .kind = ADMIN_BODY_TEXT,
         .is_required = true,
         .most = LIMIT_NAME_BYTES - 1},
        {.name = "weight", .kind = ADMIN_BODY_NUMBER, .least = 1, .most = WEIGHT_MAX},
    };
    TRY(admin_body_read(http_body(call->request), fields, 2));
    struct tenant tenant;
    TRY(tenants_create(auth_tenants(call->admin->auth), &call->actor, slice_of(fields[0].text),
                       fields[1].is_given ? (uint32_t)fields[1].number : WEIGHT_DEFAULT, &tenant));
    call->code = 201;
    render_tenant(&tenant, &call->out);
    return call->out.status;
}

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    return tenants_list(context, slice_of(after), rows, capacity, count, has_more);
}

static void list_id(const void *row, char out[LIMIT_ID_BYTES])
{
    memcpy(out, ((const struct tenant *)row)->id, LIMIT_ID_BYTES);
}

enum status admin_tenants_list(struct admin_call *call)
{
    struct admin_list_query query;
    TRY(admin_list_query_read(http_query(call->request), &query));
    struct admin_list_source source = {sizeof(struct tenant), list_page, list_id, render_tenant,
                                       auth_tenants(call->admin->auth)};
    return admin_list_render(&source, &query, &call->out);
}

enum status admin_tenants_get(struct admin_call *call)
{
    struct tenant tenant;
    TRY(tenants_get(auth_tenants(call->admin->auth), http_path_argument(call->request, 0),
                    &tenant));
    render_tenant(&tenant, &call->out);
    return call->out.status;
}
