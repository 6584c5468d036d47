#include "gateway/admin/admin_groups.h"

#include "auth/tenants/tenant_group.h"
#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_list.h"

/* Appends the object without its closing brace. `metadata` is JSON; bytes NULL = the stored one. */
static void render_members(struct tenants *tenants, const struct tenant_group *group,
                           struct slice metadata, struct buffer *out)
{
    buffer_printf(out, "{\"id\":\"%s\",\"object\":\"group\",\"name\":", group->id);
    buffer_append_json_string(out, slice_of(group->name));
    buffer_printf(out, ",\"tenants\":%u,\"shared_prompts\":%u,\"metadata\":", group->tenants,
                  group->prompts);
    if (metadata.bytes != NULL)
        buffer_append_slice(out, metadata);
    else
        tenant_group_metadata(tenants, slice_of(group->id), out);
    buffer_printf(out, ",\"created_at\":%lld,\"revision\":%lld", (long long)group->created_at_s,
                  (long long)group->revision);
}

static void render_row(void *context, const void *row, struct buffer *out)
{
    render_members(context, row, (struct slice){0}, out);
    buffer_append_char(out, '}');
}

/* --- changes --- */

struct answer {
    struct admin_call *call;
    const struct tenant_change *change;
    const struct tenant_group *group;
    struct slice metadata; /* bytes NULL = the stored one */
};

/* Called inside the transaction, so that the kept answer is stored exactly when the change is. */
static enum status answer_make(void *context, struct slice *out)
{
    const struct answer *answer = context;
    struct admin_call *call = answer->call;
    render_members(auth_tenants(call->admin->auth), answer->group, answer->metadata, &call->out);
    TRY(admin_change_end(call, answer->change, answer->group->revision));
    *out = buffer_slice(&call->out);
    return STATUS_OK;
}

enum { FIELD_NAME, FIELD_METADATA, FIELDS };

static enum status change_read(struct admin_call *call, struct admin_body_field fields[FIELDS],
                               bool is_new)
{
    struct tenant_group group;
    struct tenant_change change;
    struct slice answered;
    struct slice metadata = {0};
    struct tenants *tenants = auth_tenants(call->admin->auth);
    TRY(admin_change_begin(call, &change));
    /* The name of a group cannot be changed. */
    struct admin_body_field *known = is_new ? fields : fields + FIELD_METADATA;
    TRY(admin_body_read(call->body, known, is_new ? FIELDS : FIELDS - FIELD_METADATA));
    if (fields[FIELD_METADATA].is_given)
        metadata = buffer_slice(&fields[FIELD_METADATA].json);
    struct answer answer = {call, &change, &group, metadata};
    if (!is_new) {
        TRY(tenant_group_update(tenants, &change, call->arguments[0], metadata, &group));
        return answer_make(&answer, &answered);
    }
    answer.metadata = metadata.bytes != NULL ? metadata : SLICE("{}");
    change.answer = answer_make;
    change.context = &answer;
    return tenant_group_create(tenants, &change, slice_of(fields[FIELD_NAME].text), metadata,
                               &group);
}

static enum status change_make(struct admin_call *call, bool is_new)
{
    struct admin_body_field fields[FIELDS] = {
        [FIELD_METADATA] = {.name = "metadata", .kind = ADMIN_BODY_PAIRS},
        [FIELD_NAME] = {.name = "name",
                        .kind = ADMIN_BODY_TEXT,
                        .is_required = true,
                        .most = LIMIT_NAME_BYTES - 1}};
    enum status status = change_read(call, fields, is_new);
    admin_body_free(fields, FIELDS);
    return status;
}

enum status admin_groups_create(struct admin_call *call)
{
    return change_make(call, true);
}

enum status admin_groups_update(struct admin_call *call)
{
    return change_make(call, false);
}

enum status admin_groups_delete(struct admin_call *call)
{
    struct tenant_group group;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, NULL, 0));
    TRY(tenant_group_delete(auth_tenants(call->admin->auth), &change, call->arguments[0], &group));
    struct answer answer = {call, &change, &group, {0}};
    return answer_make(&answer, &answered);
}

/* --- reading --- */

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    return tenant_group_list(context, slice_of(after), rows, capacity, count, has_more);
}

enum status admin_groups_list(struct admin_call *call)
{
    const struct admin_list_source source = {sizeof(struct tenant_group), list_page, NULL,
                                             render_row, auth_tenants(call->admin->auth)};
    return admin_list_answer(call->query, &source, &call->out);
}

enum status admin_groups_get(struct admin_call *call)
{
    struct admin_query query;
    struct tenant_group group;
    struct tenants *tenants = auth_tenants(call->admin->auth);
    TRY(admin_query_read(call->query, 0, &query));
    TRY(tenant_group_get(tenants, call->arguments[0], &group));
    call->revision = group.revision; /* no 304: members change without a new revision */
    render_members(tenants, &group, (struct slice){0}, &call->out);
    buffer_append_text(&call->out, ",\"members\":");
    tenant_group_members(tenants, slice_of(group.name), LIMIT_GROUP_MEMBERS, &call->out);
    buffer_append_char(&call->out, '}');
    return call->out.status;
}
