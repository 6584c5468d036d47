#include "gateway/admin/admin_keys.h"

#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_list.h"

/* --- rendering --- */

static void render_id(struct buffer *out, const char *name, const char *id)
{
    buffer_printf(out, ",\"%s\":", name);
    if (id[0] != '\0')
        buffer_append_json_string(out, slice_of(id));
    else
        buffer_append_text(out, "null");
}

/* Appends the object without its closing brace. */
static void render_members(const struct tenant_key *key, struct buffer *out)
{
    bool is_admin = key->tenant_id[0] == '\0';
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(key->id));
    buffer_append_text(out, is_admin ? ",\"object\":\"admin_key\"" : ",\"object\":\"key\"");
    if (!is_admin)
        render_id(out, "tenant_id", key->tenant_id);
    buffer_append_text(out, ",\"name\":");
    buffer_append_json_string(out, slice_of(key->name));
    buffer_append_text(out, ",\"redacted\":");
    buffer_append_json_string(out, slice_of(key->redacted));
    buffer_append_text(out, ",\"scopes\":");
    auth_scopes_append(key->scopes, out);
    admin_call_append_time(out, "created_at", key->created_at_s);
    admin_call_append_time(out, "expires_at", key->expires_at_s);
    admin_call_append_time(out, "revoked_at", key->revoked_at_s);
    admin_call_append_time(out, "last_used_at", key->last_used_at_s);
    render_id(out, "rotated_to", key->rotated_to);
    buffer_printf(out, ",\"revision\":%lld", (long long)key->revision);
}

static void render_row(void *context, const void *row, struct buffer *out)
{
    (void)context;
    render_members(row, out);
    buffer_append_char(out, '}');
}

struct answer {
    struct admin_call *call;
    const struct tenant_change *change;
    const struct tenant_key *key;
    const char *value; /* of a new key; NULL = none */
};

/* Called inside the transaction, so that the kept answer is stored exactly when the key is. A dry
 * run makes no key, so it shows no value. */
static enum status answer_make(void *context, struct slice *out)
{
    const struct answer *answer = context;
    struct admin_call *call = answer->call;
    render_members(answer->key, &call->out);
    if (answer->value != NULL && !answer->change->is_dry_run) {
        buffer_append_text(&call->out, ",\"key\":");
        buffer_append_json_string(&call->out, slice_of(answer->value));
    }
    TRY(admin_change_end(call, answer->change, answer->key->revision));
    *out = buffer_slice(&call->out);
    return STATUS_OK;
}

/* --- fields --- */

enum { FIELD_NAME, FIELD_SCOPES, FIELD_EXPIRES, FIELDS };

static void fields_init(struct admin_body_field fields[FIELDS], const struct admin_owner *owner,
                        bool is_new)
{
    bool is_admin = owner->tenant_id.length == 0;
    fields[FIELD_NAME] = (struct admin_body_field){
        .name = "name", .kind = ADMIN_BODY_TEXT, .most = LIMIT_NAME_BYTES - 1};
    fields[FIELD_SCOPES] = (struct admin_body_field){
        .name = "scopes",
        .kind = ADMIN_BODY_WORDS,
        .is_required = is_new && is_admin,
        .find = auth_scope_find,
        .words = is_admin ? "admin:read, admin:write, admin:keys, usage:read, metrics:read"
                          : "inference, usage:read, priority"};
    fields[FIELD_EXPIRES] = (struct admin_body_field){
        .name = "expires_at", .kind = ADMIN_BODY_NUMBER_OR_NULL, .least = 1, .most = LIMIT_TIME_S};
}

static struct tenant_key_fields fields_given(const struct admin_body_field fields[FIELDS])
{
    static const unsigned bits[FIELDS] = {TENANT_KEY_NAME, TENANT_KEY_SCOPES, TENANT_KEY_EXPIRES};
    struct tenant_key_fields out = {.name = slice_of(fields[FIELD_NAME].text),
                                    .scopes = (uint32_t)fields[FIELD_SCOPES].number,
                                    .expires_at_s = fields[FIELD_EXPIRES].number};
    for (size_t i = 0; i < FIELDS; i++)
        out.given |= fields[i].is_given ? bits[i] : 0;
    return out;
}

/* --- changes --- */

static enum status create_read(struct admin_call *call, const struct admin_owner *owner,
                               struct admin_body_field fields[FIELDS])
{
    char value[LIMIT_KEY_BYTES];
    struct tenant_key key;
    struct tenant_change change;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, FIELDS));
    struct tenant_key_fields given = fields_given(fields);
    struct answer answer = {call, &change, &key, value};
    change.answer = answer_make;
    change.context = &answer;
    enum status status = tenants_key_create(auth_tenants(call->admin->auth), &change,
                                            owner->tenant_id, &given, &key, value);
    explicit_bzero(value, sizeof value);
    return status;
}

enum status admin_keys_create(struct admin_call *call)
{
    struct admin_body_field fields[FIELDS];
    const struct admin_owner owner = admin_call_owner(call);
    fields_init(fields, &owner, true);
    enum status status = create_read(call, &owner, fields);
    admin_body_free(fields, FIELDS);
    return status;
}

static enum status update_read(struct admin_call *call, const struct admin_owner *owner,
                               struct admin_body_field fields[FIELDS])
{
    struct tenant_key key;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, FIELDS));
    struct tenant_key_fields given = fields_given(fields);
    TRY(tenants_key_update(auth_tenants(call->admin->auth), &change, owner->tenant_id, owner->id,
                           &given, &key));
    struct answer answer = {call, &change, &key, NULL};
    return answer_make(&answer, &answered);
}

enum status admin_keys_update(struct admin_call *call)
{
    struct admin_body_field fields[FIELDS];
    const struct admin_owner owner = admin_call_owner(call);
    fields_init(fields, &owner, false);
    enum status status = update_read(call, &owner, fields);
    admin_body_free(fields, FIELDS);
    return status;
}

static enum status rotate_read(struct admin_call *call, struct admin_body_field *overlap)
{
    char value[LIMIT_KEY_BYTES];
    const struct admin_owner owner = admin_call_owner(call);
    struct tenant_key key;
    struct tenant_change change;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, overlap, 1));
    struct answer answer = {call, &change, &key, value};
    change.answer = answer_make;
    change.context = &answer;
    enum status status =
        tenants_key_rotate(auth_tenants(call->admin->auth), &change, owner.tenant_id, owner.id,
                           overlap->is_given ? overlap->number : -1, &key, value);
    explicit_bzero(value, sizeof value);
    return status;
}

enum status admin_keys_rotate(struct admin_call *call)
{
    struct admin_body_field overlap = {
        .name = "overlap_s", .kind = ADMIN_BODY_NUMBER, .most = LIMIT_OVERLAP_S};
    enum status status = rotate_read(call, &overlap);
    admin_body_free(&overlap, 1);
    return status;
}

enum status admin_keys_revoke(struct admin_call *call)
{
    const struct admin_owner owner = admin_call_owner(call);
    struct tenant_key key;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, NULL, 0));
    TRY(tenants_key_revoke(auth_tenants(call->admin->auth), &change, owner.tenant_id, owner.id,
                           &key));
    struct answer answer = {call, &change, &key, NULL};
    return answer_make(&answer, &answered);
}

/* --- reading --- */

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    const struct admin_call *call = context;
    return tenants_key_list(auth_tenants(call->admin->auth), admin_call_owner(call).tenant_id,
                            slice_of(after), rows, capacity, count, has_more);
}

enum status admin_keys_list(struct admin_call *call)
{
    const struct admin_list_source source = {sizeof(struct tenant_key), list_page, NULL, render_row,
                                             call};
    return admin_list_answer(call->query, &source, &call->out);
}

enum status admin_keys_get(struct admin_call *call)
{
    struct admin_query query;
    struct tenant_key key;
    const struct admin_owner owner = admin_call_owner(call);
    TRY(admin_query_read(call->query, 0, &query));
    TRY(tenants_key_get(auth_tenants(call->admin->auth), owner.tenant_id, owner.id, &key));
    if (!admin_change_is_known(call, key.revision))
        render_row(NULL, &key, &call->out);
    return call->out.status;
}
