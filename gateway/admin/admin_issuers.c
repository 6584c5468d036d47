#include "gateway/admin/admin_issuers.h"

#include "auth/tenants/issuer.h"
#include "config/base/mem.h"
#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_list.h"
#include "gateway/upstream/key_fetch.h"

/* --- rendering --- */

static void render_text(const char *member, const char *text, struct buffer *out)
{
    buffer_printf(out, ",\"%s\":", member);
    if (text[0] != '\0')
        buffer_append_json_string(out, slice_of(text));
    else
        buffer_append_text(out, "null");
}

static void render_audiences(const struct issuer *issuer, struct buffer *out)
{
    buffer_append_text(out, ",\"audiences\":");
    for (size_t i = 0; i < issuer->audience_count; i++) {
        buffer_append_char(out, i == 0 ? '[' : ',');
        buffer_append_json_string(out, slice_of(issuer->audiences[i]));
    }
    buffer_append_char(out, ']');
}

static void render_algorithms(const struct issuer *issuer, struct buffer *out)
{
    bool is_first = true;
    buffer_append_text(out, ",\"algorithms\":[");
    for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++) {
        if ((issuer->algorithms & 1u << i) == 0)
            continue;
        buffer_printf(out, "%s\"%s\"", is_first ? "" : ",",
                      auth_jwt_guard_algorithm((enum auth_jwt_algorithm)i));
        is_first = false;
    }
    buffer_append_char(out, ']');
}

static void render_tenants(const struct issuer *issuer, struct buffer *out)
{
    buffer_append_text(out, ",\"tenants\":{");
    for (size_t i = 0; i < issuer->tenant_count; i++) {
        if (i > 0)
            buffer_append_char(out, ',');
        buffer_append_json_string(out, slice_of(issuer->tenants[i].value));
        buffer_append_char(out, ':');
        buffer_append_json_string(out, slice_of(issuer->tenants[i].tenant_id));
    }
    buffer_append_char(out, '}');
}

static void render_keys(const struct issuer *issuer, struct buffer *out)
{
    buffer_append_text(out, ",\"keys\":[");
    for (size_t i = 0; i < issuer->key_count; i++) {
        buffer_append_text(out, i > 0 ? ",{\"kid\":" : "{\"kid\":");
        buffer_append_json_string(out, slice_of(issuer->keys[i].kid));
        buffer_printf(out, ",\"alg\":\"%s\"", auth_jwt_guard_algorithm(issuer->keys[i].algorithm));
        if (issuer->keys[i].until_s != 0)
            buffer_printf(out, ",\"until\":%lld", (long long)issuer->keys[i].until_s);
        buffer_append_char(out, '}');
    }
    buffer_append_char(out, ']');
}

/* Appends the object without its closing brace. */
static void render_members(const struct issuer *issuer, struct buffer *out)
{
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(issuer->id));
    buffer_append_text(out, ",\"object\":\"issuer\"");
    render_text("name", issuer->name, out);
    render_text("issuer", issuer->issuer, out);
    render_audiences(issuer, out);
    render_algorithms(issuer, out);
    render_text("tenant_claim", issuer->tenant_claim, out);
    render_tenants(issuer, out);
    render_text("scope_claim", issuer->scope_claim, out);
    buffer_append_text(out, ",\"scopes\":");
    auth_scopes_append(issuer->scopes, out);
    buffer_printf(out, ",\"max_lifetime_s\":%lld", (long long)issuer->max_lifetime_s);
    render_text("jwks_file", issuer->jwks_file, out);
    render_text("jwks_url", issuer->jwks_url, out);
    buffer_printf(out, ",\"jwks_refresh_s\":%lld,\"jwks_overlap_s\":%lld,\"jwks_fetched_at\":",
                  (long long)issuer->jwks_refresh_s, (long long)issuer->jwks_overlap_s);
    if (issuer->jwks_fetched_at_s != 0)
        buffer_printf(out, "%lld", (long long)issuer->jwks_fetched_at_s);
    else
        buffer_append_text(out, "null");
    render_text("jwks_error", issuer->jwks_error, out);
    render_text("admin_claim", issuer->admin_claim, out);
    buffer_append_text(out, ",\"admins\":");
    issuer_append_admins(issuer, out);
    render_keys(issuer, out);
    buffer_printf(out, ",\"created_at\":%lld,\"revision\":%lld", (long long)issuer->created_at_s,
                  (long long)issuer->revision);
}

static void render_row(void *context, const void *row, struct buffer *out)
{
    (void)context;
    render_members(row, out);
    buffer_append_char(out, '}');
}

/* --- fields --- */

static uint32_t find_algorithm(struct slice word)
{
    enum auth_jwt_algorithm algorithm;
    return auth_jwt_guard_find_algorithm(word, &algorithm) ? 1u << algorithm : 0;
}

static uint32_t find_scope(struct slice word)
{
    return auth_scope_find(word) & AUTH_SCOPES_TENANT_ALL;
}

static const struct admin_body_field known_fields[] = {
    {.name = "name", .kind = ADMIN_BODY_TEXT, .most = LIMIT_NAME_BYTES - 1},
    {.name = "issuer", .kind = ADMIN_BODY_TEXT, .most = LIMIT_ISSUER_BYTES - 1},
    {.name = "audiences", .kind = ADMIN_BODY_NAMES, .most = LIMIT_ISSUER_NAMES},
    {.name = "algorithms",
     .kind = ADMIN_BODY_WORDS,
     .find = find_algorithm,
     .words = "RS256, PS256, ES256, EdDSA, HS256"},
    {.name = "tenant_claim", .kind = ADMIN_BODY_TEXT, .most = LIMIT_NAME_BYTES - 1},
    {.name = "tenants", .kind = ADMIN_BODY_PAIRS},
    {.name = "scope_claim", .kind = ADMIN_BODY_TEXT, .most = LIMIT_NAME_BYTES - 1},
    {.name = "scopes",
     .kind = ADMIN_BODY_WORDS,
     .find = find_scope,
     .words = "inference, usage:read, priority"},
    {.name = "max_lifetime_s", .kind = ADMIN_BODY_NUMBER, .least = 1, .most = LIMIT_JWT_LIFETIME_S},
    {.name = "jwks", .kind = ADMIN_BODY_OBJECT},
    {.name = "jwks_file", .kind = ADMIN_BODY_TEXT, .most = LIMIT_NAME_BYTES - 1},
    {.name = "jwks_url", .kind = ADMIN_BODY_TEXT, .most = LIMIT_JWKS_URL_BYTES - 1},
    {.name = "jwks_refresh_s", .kind = ADMIN_BODY_NUMBER, .least = 1, .most = LIMIT_JWKS_REFRESH_S},
    {.name = "jwks_overlap_s", .kind = ADMIN_BODY_NUMBER, .least = 0, .most = LIMIT_JWKS_OVERLAP_S},
    {.name = "admin_claim", .kind = ADMIN_BODY_TEXT, .most = LIMIT_NAME_BYTES - 1},
    {.name = "admins", .kind = ADMIN_BODY_PAIRS},
};
enum { FIELDS = sizeof known_fields / sizeof known_fields[0] };

/* `fields` has the order of the ISSUER_… bits. */
static struct issuer_fields fields_given(const struct admin_body_field fields[FIELDS])
{
    struct issuer_fields out = {.name = slice_of(fields[0].text),
                                .issuer = slice_of(fields[1].text),
                                .audiences = buffer_slice(&fields[2].json),
                                .algorithms = (uint32_t)fields[3].number,
                                .tenant_claim = slice_of(fields[4].text),
                                .tenants = buffer_slice(&fields[5].json),
                                .scope_claim = slice_of(fields[6].text),
                                .scopes = (uint32_t)fields[7].number,
                                .max_lifetime_s = fields[8].number,
                                .jwks = buffer_slice(&fields[9].json),
                                .jwks_file = slice_of(fields[10].text),
                                .jwks_url = slice_of(fields[11].text),
                                .jwks_refresh_s = fields[12].number,
                                .jwks_overlap_s = fields[13].number,
                                .admin_claim = slice_of(fields[14].text),
                                .admins = buffer_slice(&fields[15].json)};
    for (size_t i = 0; i < FIELDS; i++)
        out.given |= fields[i].is_given ? 1u << i : 0u;
    return out;
}

/* --- changes --- */

struct answer {
    struct admin_call *call;
    const struct tenant_change *change;
    const struct issuer *issuer;
};

/* Called inside the transaction, so that the kept answer is stored exactly when the change is. */
static enum status answer_make(void *context, struct slice *out)
{
    const struct answer *answer = context;
    struct admin_call *call = answer->call;
    render_members(answer->issuer, &call->out);
    TRY(admin_change_end(call, answer->change, answer->issuer->revision));
    *out = buffer_slice(&call->out);
    return STATUS_OK;
}

static enum status change_read(struct admin_call *call, bool is_new,
                               struct admin_body_field fields[FIELDS])
{
    struct issuer issuer;
    struct tenant_change change;
    struct slice answered;
    struct issuers *issuers = auth_issuers(call->admin->auth);
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, fields, FIELDS));
    struct issuer_fields given = fields_given(fields);
    if ((given.given & ISSUER_JWKS_URL) != 0 && given.jwks_url.length > 0)
        TRY(key_fetch_check(given.jwks_url.bytes, call->admin->jwks_hosts));
    struct answer answer = {call, &change, &issuer};
    if (is_new) {
        change.answer = answer_make;
        change.context = &answer;
        return issuer_create(issuers, &change, &given, &issuer);
    }
    TRY(issuer_update(issuers, &change, call->arguments[0], &given, &issuer));
    return answer_make(&answer, &answered);
}

static enum status change_make(struct admin_call *call, bool is_new)
{
    struct admin_body_field fields[FIELDS];
    memcpy(fields, known_fields, sizeof fields);
    enum status status = change_read(call, is_new, fields);
    admin_body_free(fields, FIELDS);
    return status;
}

enum status admin_issuers_create(struct admin_call *call)
{
    return change_make(call, true);
}

enum status admin_issuers_update(struct admin_call *call)
{
    return change_make(call, false);
}

enum status admin_issuers_delete(struct admin_call *call)
{
    struct issuer issuer;
    struct tenant_change change;
    struct slice answered;
    TRY(admin_change_begin(call, &change));
    TRY(admin_body_read(call->body, NULL, 0));
    TRY(issuer_delete(auth_issuers(call->admin->auth), &change, call->arguments[0], &issuer));
    struct answer answer = {call, &change, &issuer};
    return answer_make(&answer, &answered);
}

/* --- reading --- */

static enum status list_page(void *context, const char *after, void *rows, size_t capacity,
                             size_t *count, bool *has_more)
{
    return issuer_list(context, slice_of(after), rows, capacity, count, has_more);
}

enum status admin_issuers_list(struct admin_call *call)
{
    const struct admin_list_source source = {sizeof(struct issuer), list_page, NULL, render_row,
                                             auth_issuers(call->admin->auth)};
    return admin_list_answer(call->query, &source, &call->out);
}

enum status admin_issuers_get(struct admin_call *call)
{
    struct admin_query query;
    struct issuer issuer;
    TRY(admin_query_read(call->query, 0, &query));
    TRY(issuer_get(auth_issuers(call->admin->auth), call->arguments[0], &issuer));
    call->revision = issuer.revision; /* no 304: keys and jwks_error change without a new one */
    render_row(NULL, &issuer, &call->out);
    return call->out.status;
}
