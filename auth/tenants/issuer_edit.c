#include <stdio.h>

#include "auth/credential/api_key.h"
#include "auth/credential/auth_scope.h"
#include "auth/tenants/issuer.h"
#include "auth/tenants/issuer_records.h"
#include "auth/tenants/issuer_rows.h"
#include "auth/tenants/tenant_change.h"
#include "config/base/mem.h"

enum { LIFETIME_DEFAULT_S = 86400, REFRESH_DEFAULT_S = 300, OVERLAP_DEFAULT_S = 600 };

/* --- fields --- */

static enum status check_text(const char *param, struct slice text, bool may_be_empty, char *out,
                              size_t capacity)
{
    if (text.length == 0 && may_be_empty) {
        out[0] = '\0';
        return STATUS_OK;
    }
    if (text.length == 0 || text.length >= capacity)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, param, "%s must have 1 to %zu bytes.", param, capacity - 1);
    tenant_change_copy(out, capacity, text);
    return STATUS_OK;
}

/* Accepts the name of a file without a folder that does not begin with a dot. */
static enum status check_file(struct slice name)
{
    bool is_name = name.length == 0 || name.bytes[0] != '.';
    for (size_t i = 0; i < name.length; i++) {
        char c = name.bytes[i];
        is_name = is_name && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                              (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_');
    }
    if (!is_name)
        FAIL_PARAM(STATUS_INVALID, "jwks_file",
                   "jwks_file must be a file's name: letters, digits and ._-; it is looked for in "
                   "jwks in the data directory.");
    return STATUS_OK;
}

/* Checks only that it is a URL of visible ASCII. key_fetch_check, which the caller uses, checks its
 * form. */
static enum status check_url(struct slice url)
{
    bool is_url = slice_starts_with(url, SLICE("https://")) ||
                  slice_starts_with(url, SLICE("http://")) || url.length == 0;
    for (size_t i = 0; i < url.length; i++)
        is_url = is_url && url.bytes[i] > ' ' && url.bytes[i] <= '~';
    if (!is_url)
        FAIL_PARAM(STATUS_INVALID, "jwks_url", "jwks_url must begin with https://.");
    return STATUS_OK;
}

static enum status check_tenants(struct tenants *tenants, const struct issuer *issuer)
{
    for (size_t i = 0; i < issuer->tenant_count; i++) {
        char where[STATUS_PARAM_BYTES];
        const struct issuer_tenant *row = &issuer->tenants[i];
        const struct tenant_record *tenant =
            tenant_directory_find(tenants, slice_of(row->tenant_id));
        snprintf(where, sizeof where, "tenants.%s", row->value);
        if (tenant == NULL)
            FAIL_PARAM(STATUS_NOT_FOUND, where, "There is no tenant %s.", row->tenant_id);
        if (tenant->tenant.state == TENANT_ARCHIVED)
            FAIL_PARAM(STATUS_CONFLICT, where, "The tenant %s is archived.", row->tenant_id);
    }
    return STATUS_OK;
}

static enum status check_numbers(const struct issuer *issuer)
{
    if (issuer->algorithms == 0 || issuer->algorithms >> AUTH_JWT_ALGORITHMS != 0)
        FAIL_PARAM(STATUS_INVALID, "algorithms", "algorithms must hold at least one.");
    if (issuer->scopes == 0 || (issuer->scopes & ~(uint32_t)AUTH_SCOPES_TENANT_ALL) != 0)
        FAIL_PARAM(STATUS_INVALID, "scopes", "scopes must be some of a tenant's.");
    if (issuer->max_lifetime_s < 1 || issuer->max_lifetime_s > LIMIT_JWT_LIFETIME_S)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "max_lifetime_s", "max_lifetime_s must be 1 to %d.",
                   LIMIT_JWT_LIFETIME_S);
    if (issuer->jwks_refresh_s < 1 || issuer->jwks_refresh_s > LIMIT_JWKS_REFRESH_S)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "jwks_refresh_s", "jwks_refresh_s must be 1 to %d.",
                   LIMIT_JWKS_REFRESH_S);
    if (issuer->jwks_overlap_s < 0 || issuer->jwks_overlap_s > LIMIT_JWKS_OVERLAP_S)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "jwks_overlap_s", "jwks_overlap_s must be 0 to %d.",
                   LIMIT_JWKS_OVERLAP_S);
    if (issuer->jwks_url[0] != '\0' && (issuer->algorithms & 1u << AUTH_JWT_HS256) != 0)
        FAIL_PARAM(STATUS_INVALID, "algorithms",
                   "HS256's keys are secrets: no URL may hold them. Give jwks or jwks_file.");
    return STATUS_OK;
}

static enum status apply_texts(const struct issuer_fields *fields, struct issuer *out)
{
    unsigned given = fields->given;
    if ((given & ISSUER_NAME) != 0) {
        TRY(tenant_change_check_name("name", fields->name));
        tenant_change_copy(out->name, sizeof out->name, fields->name);
    }
    if ((given & ISSUER_ISSUER) != 0)
        TRY(check_text("issuer", fields->issuer, false, out->issuer, sizeof out->issuer));
    if ((given & ISSUER_TENANT_CLAIM) != 0)
        TRY(check_text("tenant_claim", fields->tenant_claim, false, out->tenant_claim,
                       sizeof out->tenant_claim));
    if ((given & ISSUER_SCOPE_CLAIM) != 0)
        TRY(check_text("scope_claim", fields->scope_claim, true, out->scope_claim,
                       sizeof out->scope_claim));
    if ((given & ISSUER_JWKS_FILE) != 0) {
        TRY(check_file(fields->jwks_file));
        TRY(check_text("jwks_file", fields->jwks_file, true, out->jwks_file,
                       sizeof out->jwks_file));
    }
    if ((given & ISSUER_JWKS_URL) != 0) {
        TRY(check_url(fields->jwks_url));
        TRY(check_text("jwks_url", fields->jwks_url, true, out->jwks_url, sizeof out->jwks_url));
    }
    if ((given & ISSUER_ADMIN_CLAIM) != 0)
        TRY(check_text("admin_claim", fields->admin_claim, true, out->admin_claim,
                       sizeof out->admin_claim));
    return STATUS_OK;
}

/* Keys have one source: the source that is given now replaces the old one. */
static enum status apply_source(const struct issuer_fields *fields, struct issuer *out)
{
    bool has_set = (fields->given & ISSUER_JWKS) != 0;
    bool has_file = (fields->given & ISSUER_JWKS_FILE) != 0 && fields->jwks_file.length > 0;
    bool has_url = (fields->given & ISSUER_JWKS_URL) != 0 && fields->jwks_url.length > 0;
    if (has_set + has_file + has_url > 1)
        FAIL_PARAM(STATUS_INVALID, has_url ? "jwks_url" : "jwks_file",
                   "Give one of jwks, jwks_file and jwks_url.");
    if (has_set || has_url)
        out->jwks_file[0] = '\0';
    if (has_set || has_file)
        out->jwks_url[0] = '\0';
    return STATUS_OK;
}

static void apply_numbers(const struct issuer_fields *fields, struct issuer *out)
{
    if ((fields->given & ISSUER_ALGORITHMS) != 0)
        out->algorithms = fields->algorithms;
    if ((fields->given & ISSUER_SCOPES) != 0)
        out->scopes = fields->scopes;
    if ((fields->given & ISSUER_MAX_LIFETIME) != 0)
        out->max_lifetime_s = fields->max_lifetime_s;
    if ((fields->given & ISSUER_JWKS_REFRESH) != 0)
        out->jwks_refresh_s = fields->jwks_refresh_s;
    if ((fields->given & ISSUER_JWKS_OVERLAP) != 0)
        out->jwks_overlap_s = fields->jwks_overlap_s;
}

/* Without a URL the two times of fetching have no meaning and keep their defaults. A document that
 * gives the defaults is accepted, because exports of earlier versions contain them. */
static enum status apply_no_url(const struct issuer_fields *fields, struct issuer *out)
{
    if (out->jwks_url[0] != '\0')
        return STATUS_OK;
    if ((fields->given & ISSUER_JWKS_REFRESH) != 0 && out->jwks_refresh_s != REFRESH_DEFAULT_S)
        FAIL_PARAM(STATUS_INVALID, "jwks_refresh_s",
                   "jwks_refresh_s is for keys of a jwks_url, which this issuer has not.");
    if ((fields->given & ISSUER_JWKS_OVERLAP) != 0 && out->jwks_overlap_s != OVERLAP_DEFAULT_S)
        FAIL_PARAM(STATUS_INVALID, "jwks_overlap_s",
                   "jwks_overlap_s is for keys of a jwks_url, which this issuer has not.");
    out->jwks_refresh_s = REFRESH_DEFAULT_S;
    out->jwks_overlap_s = OVERLAP_DEFAULT_S;
    return STATUS_OK;
}

/* Replaces the members of `out` by the fields that are given. */
static enum status apply(struct tenants *tenants, const struct issuer_fields *fields,
                         struct issuer *out)
{
    TRY(apply_texts(fields, out));
    TRY(apply_source(fields, out));
    apply_numbers(fields, out);
    TRY(check_numbers(out));
    TRY(apply_no_url(fields, out));
    if ((fields->given & ISSUER_AUDIENCES) != 0)
        TRY(issuer_rows_read_audiences(fields->audiences, out));
    if ((fields->given & ISSUER_TENANTS) != 0) {
        TRY(issuer_rows_read_tenants(fields->tenants, out));
        TRY(check_tenants(tenants, out));
    }
    if ((fields->given & ISSUER_ADMINS) != 0)
        TRY(issuer_rows_read_admins(fields->admins, out));
    if ((out->admin_claim[0] == '\0') != (out->admin_count == 0))
        FAIL_PARAM(STATUS_INVALID, "admins", "admin_claim and admins are given together.");
    return STATUS_OK;
}

static uint32_t admin_scopes(const struct issuer *issuer)
{
    uint32_t scopes = 0;
    for (size_t i = 0; i < issuer->admin_count; i++)
        scopes |= issuer->admins[i].scopes;
    return scopes;
}

/* Whoever sets the keys or rules of an issuer with admins can make tokens with all of the admins'
 * scopes, so the actor must have them. */
static enum status check_actor(const struct tenant_change *change, const struct issuer *old,
                               const struct issuer *new)
{
    uint32_t scopes = admin_scopes(new) | (old != NULL ? admin_scopes(old) : 0);
    if ((scopes & ~change->actor->scopes) != 0)
        FAIL_PARAM(STATUS_FORBIDDEN, "admins",
                   "This issuer's admins have scopes that you do not have.");
    return STATUS_OK;
}

static enum status check_taken(const struct issuers *issuers, const struct issuer *issuer)
{
    for (const struct issuer_record *at = issuers->first; at != NULL; at = at->next) {
        if (strcmp(at->issuer.id, issuer->id) == 0)
            continue;
        if (strcmp(at->issuer.name, issuer->name) == 0)
            FAIL_PARAM(STATUS_EXISTS, "name", "There is an issuer of this name already.");
        if (strcmp(at->issuer.issuer, issuer->issuer) == 0)
            FAIL_PARAM(STATUS_EXISTS, "issuer", "There is an issuer with this iss already.");
    }
    return STATUS_OK;
}

/* --- one change --- */

struct edit {
    const struct issuer *issuer;
    struct slice sealed;
};

static enum status edit_insert(struct sqlite3 *connection, const void *context)
{
    const struct edit *edit = context;
    return issuer_rows_insert(connection, edit->issuer, edit->sealed);
}

static enum status edit_update(struct sqlite3 *connection, const void *context)
{
    const struct edit *edit = context;
    return issuer_rows_update(connection, edit->issuer, edit->sealed);
}

static enum status edit_delete(struct sqlite3 *connection, const void *context)
{
    const struct edit *edit = context;
    return issuer_rows_delete(connection, edit->issuer->id);
}

/* Commits the change and puts `new` in the place of `old`; with `new` NULL, deletes the issuer.
 * Takes over the reference to `new`. */
static enum status edit_commit(struct issuers *issuers, const struct tenant_change *change,
                               const char *type, struct issuer_record *old,
                               struct issuer_record *new)
{
    const struct issuer *issuer = new != NULL ? &new->issuer : &old->issuer;
    struct tenant_change_plan plan;
    struct edit edit = {.issuer = issuer};
    struct buffer sealed;
    enum status status = STATUS_OK;
    buffer_init(&sealed, LIMIT_JWKS_BYTES + AUTH_CRYPTO_SEAL_BYTES);
    if (new != NULL &&new->issuer.jwks_file[0] == '\0' && new->json != NULL)
        status =
            auth_crypto_seal(issuers->seal, slice_of(issuer->id), slice_of(new->json), &sealed);
    if (status == STATUS_OK) {
        edit.sealed = buffer_slice(&sealed);
        tenant_change_plan_init(&plan, change, type, issuer->id);
        buffer_printf(&plan.detail, "{\"revision\":%lld,\"keys\":%zu,\"algorithms\":%u,",
                      (long long)issuer->revision,
                      new != NULL &&new->jwks != NULL ? new->jwks->count : 0, issuer->algorithms);
        buffer_printf(&plan.detail, "\"scopes\":%u,\"tenants\":%zu}", issuer->scopes,
                      issuer->tenant_count);
        plan.rows = new == NULL ? edit_delete : old == NULL ? edit_insert : edit_update;
        plan.context = &edit;
        status = tenant_change_commit(issuers->tenants, &plan);
    }
    buffer_deinit(&sealed);
    if (status == STATUS_OK && !change->is_dry_run)
        issuer_records_replace(issuers, old, new);
    else if (new != NULL)
        issuer_record_drop(new);
    return status;
}

/* Makes the record of an issuer with a URL. The keys come with a later fetch. Until then, the keys
 * that the same URL gave before stay if they are still valid. */
static enum status edit_make_url(struct issuers *issuers, const struct issuer *issuer,
                                 const struct issuer_record *old, struct issuer_record **out)
{
    bool is_same =
        old != NULL && old->json != NULL && strcmp(old->issuer.jwks_url, issuer->jwks_url) == 0;
    if (is_same && issuer_records_make(issuers, issuer, slice_of(old->json), out) == STATUS_OK)
        return STATUS_OK;
    return issuer_records_make(issuers, issuer, (struct slice){NULL, 0}, out);
}

/* Makes the record of `issuer` with the keys of its file, the keys that are given, or the keys of
 * `old`. */
static enum status edit_make(struct issuers *issuers, const struct issuer_fields *fields,
                             const struct issuer *issuer, const struct issuer_record *old,
                             struct issuer_record **out)
{
    struct slice json = {NULL, 0};
    struct buffer file;
    enum status status = STATUS_OK;
    *out = NULL;
    if (issuer->jwks_url[0] != '\0')
        return edit_make_url(issuers, issuer, old, out);
    buffer_init(&file, LIMIT_JWKS_BYTES);
    if (issuer->jwks_file[0] != '\0') {
        status = issuer_records_read_file(issuers, issuer->jwks_file, &file);
        json = buffer_slice(&file);
    } else if ((fields->given & ISSUER_JWKS) != 0) {
        json = fields->jwks;
    } else if (old != NULL && old->json != NULL && old->issuer.jwks_file[0] == '\0' &&
               old->issuer.jwks_url[0] == '\0') {
        json = slice_of(old->json);
    }
    if (status == STATUS_OK && json.bytes == NULL)
        status = status_fail(STATUS_INVALID, __FILE__, __LINE__, "jwks",
                             "Give the issuer's keys: one of jwks, jwks_file and jwks_url.");
    if (status == STATUS_OK)
        status = issuer_records_make(issuers, issuer, json, out);
    if (file.bytes != NULL)
        auth_crypto_forget(file.bytes, file.capacity);
    buffer_deinit(&file);
    return status;
}

/* --- create --- */

static enum status create_check_given(const struct issuer_fields *fields)
{
    static const struct {
        unsigned bit;
        const char *param;
    } required[] = {{ISSUER_NAME, "name"},
                    {ISSUER_ISSUER, "issuer"},
                    {ISSUER_AUDIENCES, "audiences"},
                    {ISSUER_ALGORITHMS, "algorithms"}};
    for (size_t i = 0; i < sizeof required / sizeof required[0]; i++) {
        if ((fields->given & required[i].bit) == 0)
            FAIL_PARAM(STATUS_INVALID, required[i].param, "%s is missing.", required[i].param);
    }
    return STATUS_OK;
}

static enum status create_locked(struct issuers *issuers, const struct tenant_change *change,
                                 const struct issuer_fields *fields, struct issuer *out)
{
    struct issuer_record *record;
    size_t count = 0;
    for (const struct issuer_record *at = issuers->first; at != NULL; at = at->next)
        count++;
    if (count >= LIMIT_ISSUERS)
        FAIL(STATUS_CONFLICT, "There are %d issuers, which is the limit.", LIMIT_ISSUERS);
    TRY(apply(issuers->tenants, fields, out));
    TRY(check_actor(change, NULL, out));
    TRY(check_taken(issuers, out));
    TRY(edit_make(issuers, fields, out, NULL, &record));
    *out = record->issuer;
    return edit_commit(issuers, change, "issuer.created", NULL, record);
}

enum status issuer_create(struct issuers *issuers, const struct tenant_change *change,
                          const struct issuer_fields *fields, struct issuer *out)
{
    char random[21];
    struct tenants *tenants = issuers->tenants;
    TRY(create_check_given(fields));
    api_key_random(random, sizeof random - 1);
    *out = (struct issuer){.tenant_claim = "tenant",
                           .scopes = AUTH_SCOPES_TENANT,
                           .max_lifetime_s = LIFETIME_DEFAULT_S,
                           .jwks_refresh_s = REFRESH_DEFAULT_S,
                           .jwks_overlap_s = OVERLAP_DEFAULT_S,
                           .created_at_s = tenant_directory_now_s(tenants),
                           .revision = 1};
    snprintf(out->id, sizeof out->id, "iss_%s", random);
    pthread_mutex_lock(&tenants->change);
    enum status status = create_locked(issuers, change, fields, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- update and delete --- */

static enum status find(struct issuers *issuers, const struct tenant_change *change,
                        struct slice id, struct issuer_record **record, struct issuer *out)
{
    *record = issuer_records_find(issuers, id);
    if (*record == NULL)
        FAIL(STATUS_NOT_FOUND, "There is no issuer of this id.");
    *out = (*record)->issuer;
    return tenant_change_check_revision(change, out->revision);
}

static enum status update_locked(struct issuers *issuers, const struct tenant_change *change,
                                 struct slice id, const struct issuer_fields *fields,
                                 struct issuer *out)
{
    struct issuer_record *old;
    struct issuer_record *new;
    TRY(find(issuers, change, id, &old, out));
    TRY(apply(issuers->tenants, fields, out));
    TRY(check_actor(change, &old->issuer, out));
    TRY(check_taken(issuers, out));
    if (fields->given == 0)
        return STATUS_OK;
    out->revision++;
    TRY(edit_make(issuers, fields, out, old, &new));
    *out = new->issuer;
    return edit_commit(issuers, change, "issuer.updated", old, new);
}

enum status issuer_update(struct issuers *issuers, const struct tenant_change *change,
                          struct slice id, const struct issuer_fields *fields, struct issuer *out)
{
    pthread_mutex_lock(&issuers->tenants->change);
    enum status status = update_locked(issuers, change, id, fields, out);
    pthread_mutex_unlock(&issuers->tenants->change);
    return status;
}

enum status issuer_delete(struct issuers *issuers, const struct tenant_change *change,
                          struct slice id, struct issuer *out)
{
    struct issuer_record *record;
    pthread_mutex_lock(&issuers->tenants->change);
    enum status status = find(issuers, change, id, &record, out);
    if (status == STATUS_OK)
        status = edit_commit(issuers, change, "issuer.deleted", record, NULL);
    pthread_mutex_unlock(&issuers->tenants->change);
    return status;
}
