#include "gateway/admin/admin_certificates.h"

#include "auth/tenants/certificate.h"
#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_list.h"

/* --- rendering --- */

/* Appends the object without its closing brace. */
static void render_members(const struct certificate *row, struct buffer *out)
{
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(row->id));
    buffer_append_text(out, ",\"object\":\"certificate\",\"tenant_id\":");
    if (row->tenant_id[0] != '\0')
        buffer_append_json_string(out, slice_of(row->tenant_id));
    else
        buffer_append_text(out, "null");
    buffer_append_text(out, ",\"label\":");
    buffer_append_json_string(out, slice_of(row->label));
    for (int i = CERTIFICATE_FINGERPRINT; i <= CERTIFICATE_DNS; i++) {
        buffer_printf(out, ",\"%s\":", certificate_match_name((enum certificate_match)i));
        if ((int)row->match == i)
            buffer_append_json_string(out, slice_of(row->value));
        else
            buffer_append_text(out, "null");
    }
    buffer_append_text(out, ",\"scopes\":");
    auth_scopes_append(row->scopes, out);
    admin_call_append_time(out, "created_at", row->created_at_s);
    admin_call_append_time(out, "expires_at", row->expires_at_s);
    admin_call_append_time(out, "revoked_at", row->revoked_at_s);
    admin_call_append_time(out, "last_used_at", row->last_used_at_s);
    buffer_printf(out, ",\"revision\":%lld", (long long)row->revision);
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
    const struct certificate *row;
};

/* Called inside the transaction, so that the kept answer is stored exactly when the change is. */
static enum status answer_make(void *context, struct slice *out)
{
    const struct answer *answer = context;
    struct admin_call *call = answer->call;
    render_members(answer->row, &call->out);
    TRY(admin_change_end(call, answer->change, answer->row->revision));
    *out = buffer_slice(&call->out);
    return STATUS_OK;
}

/* --- fields --- */

enum { FIELD_LABEL, FIELD_SCOPES, FIELD_EXPIRES, FIELD_MATCH, FIELDS = FIELD_MATCH + 3 };

/* The last three fields, in the order of enum certificate_match, say which certificate is meant.
 * Only a new row has them. */
static size_t fields_init(struct admin_body_field fields[FIELDS], const struct admin_owner *owner,
                          bool is_new)
{
    bool is_admin = owner->tenant_id.length == 0;
    fields[FIELD_LABEL] = (struct admin_body_field){
        .name = "label", .kind = ADMIN_BODY_TEXT, .most = LIMIT_NAME_BYTES - 1};
    fields[FIELD_SCOPES] = (struct admin_body_field){
        .name = "scopes",
        .kind = ADMIN_BODY_WORDS,
        .is_required = is_new && is_admin,
        .find = auth_scope_find,
        .words = is_admin ? "admin:read, admin:write, admin:keys, usage:read, metrics:read"
                          : "inference, usage:read, priority"};
    fields[FIELD_EXPIRES] = (struct admin_body_field){
        .name = "expires_at", .kind = ADMIN_BODY_NUMBER_OR_NULL, .least = 1, .most = LIMIT_TIME_S};
    for (size_t i = FIELD_MATCH; i < FIELDS; i++)
        fields[i] = (struct admin_body_field){
            .name = certificate_match_name((enum certificate_match)(i - FIELD_MATCH)),
            .kind = ADMIN_BODY_TEXT,
            .most = LIMIT_PEER_NAME_BYTES - 1};
    return is_new ? FIELDS : FIELD_MATCH;
}

static enum status fields_given(const struct admin_body_field *fields, size_t count,
                                struct certificate_fields *out)
{
    static const unsigned bits[] = {CERTIFICATE_LABEL, CERTIFICATE_SCOPES, CERTIFICATE_EXPIRES};
    *out = (struct certificate_fields){.label = slice_of(fields[FIELD_LABEL].text),
                                       .scopes = (uint32_t)fields[FIELD_SCOPES].number,
                                       .expires_at_s = fields[FIELD_EXPIRES].number};
    for (size_t i = 0; i < FIELD_MATCH; i++)
        out->given |= fields[i].is_given ? bits[i] : 0;
    for (size_t i = FIELD_MATCH; i < count; i++) {
        if (!fields[i].is_given)
            continue;
        if ((out->given & CERTIFICATE_VALUE) != 0)
            FAIL_PARAM(STATUS_INVALID, fields[i].name,
                       "Give only one of fingerprint, uri and dns.");
        out->given |= CERTIFICATE_VALUE;
        out->match = (enum certificate_match)(i - FIELD_MATCH);
        out->value = slice_of(fields[i].text);
    }
    return STATUS_OK;
}

/* --- changes --- */

static enum status change_read(struct admin_call *call, const struct admin_owner *owner,
                               struct admin_body_field *fields, size_t count)
{
    bool is_new = count == FIELDS;
    struct certificate row;
    struct certificate_fields given;
    struct tenant_change change;
    struct slice answered;
    struct certificates *certificates = auth_certificates(call->admin->auth);
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, count));
    TRY(fields_given(fields, count, &given));
    struct answer answer = {call, &change, &row};
    if (is_new) {
        change.answer = answer_make;
        change.context = &answer;
        return certificate_create(certificates, &change, owner->tenant_id, &given, &row);
    }
    TRY(certificate_update(certificates, &change, owner->tenant_id, owner->id, &given, &row));
    return answer_make(&answer, &answered);
}

static enum status change_make(struct admin_call *call, bool is_new)
{
    struct admin_body_field fields[FIELDS];
    const struct admin_owner owner = admin_call_owner(call);
    size_t count = fields_init(fields, &owner, is_new);
    enum status status = change_read(call, &owner, fields, count);
    admin_body_free(fields, FIELDS);
    return status;
}

enum status admin_certificates_create(struct admin_call *call)
{
    return change_make(call, true);
}

enum status admin_certificates_update(struct admin_call *call)
{
    return change_make(call, false);
}

enum status admin_certificates_revoke(struct admin_call *call)
{
    const struct admin_owner owner = admin_call_owner(call);
    struct certificate row;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, NULL, 0));
    TRY(certificate_revoke(auth_certificates(call->admin->auth), &change, owner.tenant_id, owner.id,
                           &row));
    struct answer answer = {call, &change, &row};
    return answer_make(&answer, &answered);
}

/* --- reading --- */

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    const struct admin_call *call = context;
    return certificate_list(auth_certificates(call->admin->auth), admin_call_owner(call).tenant_id,
                            slice_of(after), rows, capacity, count, has_more);
}

enum status admin_certificates_list(struct admin_call *call)
{
    const struct admin_list_source source = {sizeof(struct certificate), list_page, NULL,
                                             render_row, call};
    return admin_list_answer(call->query, &source, &call->out);
}

static enum status list_page_all(void *context, const char *after, void *rows, size_t capacity,
                                 size_t *count, bool *has_more)
{
    return certificate_list_all(context, slice_of(after), rows, capacity, count, has_more);
}

enum status admin_certificates_list_all(struct admin_call *call)
{
    const struct admin_list_source source = {sizeof(struct certificate), list_page_all, NULL,
                                             render_row, auth_certificates(call->admin->auth)};
    return admin_list_answer(call->query, &source, &call->out);
}

enum status admin_certificates_get(struct admin_call *call)
{
    struct admin_query query;
    struct certificate row;
    const struct admin_owner owner = admin_call_owner(call);
    TRY(admin_query_read(call->query, 0, &query));
    TRY(certificate_get(auth_certificates(call->admin->auth), owner.tenant_id, owner.id, &row));
    if (!admin_change_is_known(call, row.revision))
        render_row(NULL, &row, &call->out);
    return call->out.status;
}
