#include <ctype.h>
#include <stdio.h>

#include "auth/credential/api_key.h"
#include "auth/credential/auth_scope.h"
#include "auth/tenants/certificate.h"
#include "auth/tenants/certificate_records.h"
#include "auth/tenants/certificate_rows.h"
#include "auth/tenants/tenant_change.h"
#include "config/base/mem.h"

/* --- values --- */

/* Reads a fingerprint as tools print it, "AB:CD:…" or "abcd…", into 64 lower-case hex digits. */
static enum status value_fingerprint(struct slice text, char out[LIMIT_PEER_NAME_BYTES])
{
    size_t digits = 0;
    bool is_right = true;
    for (size_t i = 0; i < text.length && is_right; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        bool is_between = c == ':' && digits > 0 && digits % 2 == 0 && text.bytes[i - 1] != ':';
        is_right = is_between || (isxdigit(c) && digits < 64);
        if (is_right && !is_between)
            out[digits++] = (char)tolower(c);
    }
    if (!is_right || digits != 64 || text.bytes[text.length - 1] == ':')
        FAIL_PARAM(STATUS_INVALID, "fingerprint",
                   "fingerprint must be the SHA-256 of the certificate: 64 hex digits, with or "
                   "without colons.");
    out[digits] = '\0';
    return STATUS_OK;
}

/* Copies the name exactly as a certificate has it; a DNS name becomes lower case. */
static enum status value_name(enum certificate_match match, struct slice text,
                              char out[LIMIT_PEER_NAME_BYTES])
{
    const char *param = certificate_match_name(match);
    if (text.length == 0 || text.length >= LIMIT_PEER_NAME_BYTES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, param, "%s must have 1 to %d bytes.", param,
                   LIMIT_PEER_NAME_BYTES - 1);
    bool is_dns = match == CERTIFICATE_DNS;
    bool is_right = is_dns || memchr(text.bytes, ':', text.length) != NULL;
    for (size_t i = 0; i < text.length; i++) {
        unsigned char c = (unsigned char)text.bytes[i];
        is_right = is_right && c > ' ' && c < 0x7f &&
                   (!is_dns || isalnum(c) || c == '-' || c == '.' || c == '_');
        out[i] = (char)(is_dns ? tolower(c) : c);
    }
    out[text.length] = '\0';
    if (!is_right)
        FAIL_PARAM(STATUS_INVALID, param, "%s",
                   is_dns ? "dns must be one name of a machine, without a wildcard."
                          : "uri must be a URI in visible ASCII, as spiffe://example.org/agent.");
    return STATUS_OK;
}

enum status certificate_value_read(enum certificate_match match, struct slice text,
                                   char out[LIMIT_PEER_NAME_BYTES])
{
    return match == CERTIFICATE_FINGERPRINT ? value_fingerprint(text, out)
                                            : value_name(match, text, out);
}

/* --- checks --- */

static enum status check_owner(struct certificates *certificates, struct slice tenant_id)
{
    if (tenant_id.length == 0)
        return STATUS_OK;
    const struct tenant_record *owner = tenant_directory_find(certificates->tenants, tenant_id);
    if (owner == NULL)
        FAIL(STATUS_NOT_FOUND, "There is no tenant of this id.");
    if (owner->tenant.state == TENANT_ARCHIVED)
        FAIL(STATUS_CONFLICT, "The tenant is archived, which is for ever.");
    return STATUS_OK;
}

static enum status check_scopes(const struct tenant_change *change, bool is_admin, uint32_t scopes,
                                uint32_t had)
{
    uint32_t known = is_admin ? AUTH_SCOPES_ADMIN : AUTH_SCOPES_TENANT_ALL;
    if (scopes == 0 || (scopes & ~known) != 0)
        FAIL_PARAM(STATUS_INVALID, "scopes", "scopes must be some of %s's, at least one.",
                   is_admin ? "an admin key" : "a tenant's key");
    if (is_admin && (scopes & ~(change->actor->scopes | had)) != 0)
        FAIL_PARAM(STATUS_FORBIDDEN, "scopes", "You cannot give scopes that you do not have.");
    return STATUS_OK;
}

static enum status check_expires(int64_t expires_at_s, int64_t now_s)
{
    if (expires_at_s != 0 && (expires_at_s <= now_s || expires_at_s > LIMIT_TIME_S))
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "expires_at",
                   "expires_at must be in the future, in seconds since 1970.");
    return STATUS_OK;
}

/* A revoked fingerprint stays revoked for ever. A revoked name may get a new row. */
static enum status check_taken(struct certificates *certificates, const struct certificate *row)
{
    const struct certificate_record *other =
        certificate_records_find(certificates, row->match, slice_of(row->value));
    if (other == NULL || (row->match != CERTIFICATE_FINGERPRINT && other->row.revoked_at_s != 0))
        return STATUS_OK;
    FAIL_PARAM(STATUS_EXISTS, certificate_match_name(row->match),
               other->row.revoked_at_s != 0 ? "The certificate of this fingerprint is revoked."
                                            : "There is a row for this %s already.",
               certificate_match_name(row->match));
}

/* --- one change --- */

static enum status edit_insert(struct sqlite3 *connection, const void *context)
{
    return certificate_rows_insert(connection, context);
}

static enum status edit_update(struct sqlite3 *connection, const void *context)
{
    return certificate_rows_update(connection, context);
}

static enum status edit_commit(struct certificates *certificates,
                               const struct tenant_change *change, const char *type,
                               const struct certificate *row, bool is_new)
{
    struct tenant_change_plan plan;
    tenant_change_plan_init(&plan, change, type, row->id);
    buffer_printf(&plan.detail, "{\"tenant\":\"%s\",\"%s\":", row->tenant_id,
                  certificate_match_name(row->match));
    buffer_append_json_string(&plan.detail, slice_of(row->value));
    buffer_printf(&plan.detail, ",\"scopes\":%u,\"expires_at\":%lld,\"revision\":%lld}",
                  row->scopes, (long long)row->expires_at_s, (long long)row->revision);
    plan.rows = is_new ? edit_insert : edit_update;
    plan.context = row;
    return tenant_change_commit(certificates->tenants, &plan);
}

/* --- create --- */

static enum status create_locked(struct certificates *certificates,
                                 const struct tenant_change *change, struct certificate *out)
{
    struct certificate_record *record;
    TRY(check_owner(certificates, slice_of(out->tenant_id)));
    TRY(check_expires(out->expires_at_s, out->created_at_s));
    TRY(check_taken(certificates, out));
    if (certificates->by_id.count >= LIMIT_CERTIFICATES)
        FAIL(STATUS_CONFLICT, "There are %d certificates, which is the limit.", LIMIT_CERTIFICATES);
    TRY(certificate_records_make(certificates, out, &record));
    enum status status = certificate_records_reserve(certificates);
    if (status == STATUS_OK)
        status = edit_commit(certificates, change, "certificate.created", out, true);
    if (status == STATUS_OK && !change->is_dry_run)
        certificate_records_add(certificates, record);
    else
        mem_free(record);
    return status;
}

enum status certificate_create(struct certificates *certificates,
                               const struct tenant_change *change, struct slice tenant_id,
                               const struct certificate_fields *fields, struct certificate *out)
{
    char random[21];
    unsigned given = fields->given;
    bool is_admin = tenant_id.length == 0;
    *out = (struct certificate){.match = fields->match,
                                .created_at_s = tenant_directory_now_s(certificates->tenants),
                                .revision = 1};
    if (tenant_id.length >= sizeof out->tenant_id)
        FAIL(STATUS_NOT_FOUND, "There is no tenant of this id.");
    if ((given & CERTIFICATE_VALUE) == 0)
        FAIL_PARAM(STATUS_INVALID, "fingerprint", "Give one of fingerprint, uri and dns.");
    TRY(certificate_value_read(fields->match, fields->value, out->value));
    struct slice label = (given & CERTIFICATE_LABEL) != 0 ? fields->label : SLICE("unnamed");
    TRY(tenant_change_check_name("label", label));
    tenant_change_copy(out->label, sizeof out->label, label);
    tenant_change_copy(out->tenant_id, sizeof out->tenant_id, tenant_id);
    out->scopes = (given & CERTIFICATE_SCOPES) != 0 ? fields->scopes
                  : is_admin                        ? 0
                                                    : AUTH_SCOPES_TENANT;
    out->expires_at_s = (given & CERTIFICATE_EXPIRES) != 0 ? fields->expires_at_s : 0;
    TRY(check_scopes(change, is_admin, out->scopes, 0));
    api_key_random(random, sizeof random - 1);
    snprintf(out->id, sizeof out->id, "crt_%s", random);
    pthread_mutex_lock(&certificates->tenants->change);
    enum status status = create_locked(certificates, change, out);
    pthread_mutex_unlock(&certificates->tenants->change);
    return status;
}

/* --- update and revoke --- */

static enum status find(struct certificates *certificates, const struct tenant_change *change,
                        struct slice tenant_id, struct slice id, struct certificate_record **record,
                        struct certificate *out)
{
    *record = auth_index_get(&certificates->by_id, id);
    if (*record == NULL || !slice_is(tenant_id, (*record)->row.tenant_id))
        FAIL(STATUS_NOT_FOUND, "There is no certificate of this id.");
    certificate_records_row(*record, out);
    return tenant_change_check_revision(change, out->revision);
}

/* Commits `out`, then stores it in the record. */
static enum status edit_record(struct certificates *certificates,
                               const struct tenant_change *change, const char *type,
                               struct certificate_record *record, struct certificate *out)
{
    out->revision++;
    TRY(edit_commit(certificates, change, type, out, false));
    if (change->is_dry_run)
        return STATUS_OK;
    pthread_rwlock_wrlock(&certificates->lock);
    record->row = *out;
    pthread_rwlock_unlock(&certificates->lock);
    return STATUS_OK;
}

/* A later expiry gives the scopes to the holder of the certificate's key for longer, so the actor
 * must have those scopes. */
static enum status update_expires(struct certificates *certificates,
                                  const struct tenant_change *change, int64_t expires_at_s,
                                  struct certificate *out)
{
    bool is_longer =
        out->expires_at_s != 0 && (expires_at_s == 0 || expires_at_s > out->expires_at_s);
    TRY(check_expires(expires_at_s, tenant_directory_now_s(certificates->tenants)));
    if (is_longer && out->tenant_id[0] == '\0' && (out->scopes & ~change->actor->scopes) != 0)
        FAIL_PARAM(STATUS_FORBIDDEN, "expires_at",
                   "You cannot make one with scopes that you do not have live longer.");
    out->expires_at_s = expires_at_s;
    return STATUS_OK;
}

static enum status update_locked(struct certificates *certificates,
                                 const struct tenant_change *change, struct slice tenant_id,
                                 struct slice id, const struct certificate_fields *fields,
                                 struct certificate *out)
{
    struct certificate_record *record;
    unsigned given = fields->given;
    TRY(find(certificates, change, tenant_id, id, &record, out));
    TRY(check_owner(certificates, tenant_id));
    if (out->revoked_at_s != 0)
        FAIL(STATUS_CONFLICT, "The certificate is revoked, which is for ever.");
    if ((given & CERTIFICATE_LABEL) != 0)
        tenant_change_copy(out->label, sizeof out->label, fields->label);
    if ((given & CERTIFICATE_SCOPES) != 0) {
        TRY(check_scopes(change, tenant_id.length == 0, fields->scopes, out->scopes));
        out->scopes = fields->scopes;
    }
    if ((given & CERTIFICATE_EXPIRES) != 0 && fields->expires_at_s != out->expires_at_s)
        TRY(update_expires(certificates, change, fields->expires_at_s, out));
    const struct certificate *old = &record->row;
    if (strcmp(out->label, old->label) == 0 && out->scopes == old->scopes &&
        out->expires_at_s == old->expires_at_s)
        return STATUS_OK;
    return edit_record(certificates, change, "certificate.updated", record, out);
}

enum status certificate_update(struct certificates *certificates,
                               const struct tenant_change *change, struct slice tenant_id,
                               struct slice id, const struct certificate_fields *fields,
                               struct certificate *out)
{
    if ((fields->given & CERTIFICATE_LABEL) != 0)
        TRY(tenant_change_check_name("label", fields->label));
    pthread_mutex_lock(&certificates->tenants->change);
    enum status status = update_locked(certificates, change, tenant_id, id, fields, out);
    pthread_mutex_unlock(&certificates->tenants->change);
    return status;
}

static enum status revoke_locked(struct certificates *certificates,
                                 const struct tenant_change *change, struct slice tenant_id,
                                 struct slice id, struct certificate *out)
{
    struct certificate_record *record;
    TRY(find(certificates, change, tenant_id, id, &record, out));
    if (out->revoked_at_s != 0)
        return STATUS_OK;
    out->revoked_at_s = tenant_directory_now_s(certificates->tenants);
    return edit_record(certificates, change, "certificate.revoked", record, out);
}

enum status certificate_revoke(struct certificates *certificates,
                               const struct tenant_change *change, struct slice tenant_id,
                               struct slice id, struct certificate *out)
{
    pthread_mutex_lock(&certificates->tenants->change);
    enum status status = revoke_locked(certificates, change, tenant_id, id, out);
    pthread_mutex_unlock(&certificates->tenants->change);
    return status;
}

/* --- last uses --- */

/* Up to LIMIT_USED_BATCH records, from `*from` on, whose last use is not in the database yet. */
struct used_batch {
    struct certificate_record *records[LIMIT_USED_BATCH];
    int64_t used_at_s[LIMIT_USED_BATCH];
    size_t count;
};

static void used_take(struct certificate_record **from, struct used_batch *out)
{
    out->count = 0;
    for (; *from != NULL && out->count < LIMIT_USED_BATCH; *from = (*from)->next) {
        int64_t used_at_s = atomic_load(&(*from)->used_at_s);
        if (used_at_s == (*from)->written_s)
            continue;
        out->records[out->count] = *from;
        out->used_at_s[out->count++] = used_at_s;
    }
}

static enum status used_write(struct certificates *certificates, struct used_batch *batch)
{
    struct sqlite3 *connection;
    struct store *store = certificates->tenants->store;
    TRY(store_begin(store, &connection));
    enum status status = STATUS_OK;
    for (size_t i = 0; i < batch->count && status == STATUS_OK; i++)
        status = certificate_rows_update_used(connection, batch->records[i]->row.id,
                                              batch->used_at_s[i]);
    enum status ended = store_end(store, status == STATUS_OK);
    TRY(status);
    TRY(ended);
    for (size_t i = 0; i < batch->count; i++)
        batch->records[i]->written_s = batch->used_at_s[i];
    return STATUS_OK;
}

enum status certificates_used_flush(struct certificates *certificates)
{
    struct used_batch batch;
    enum status status = STATUS_OK;
    pthread_mutex_lock(&certificates->tenants->change); /* no other thread adds or writes rows */
    struct certificate_record *from = certificates->first;
    do {
        used_take(&from, &batch);
        if (batch.count > 0)
            status = used_write(certificates, &batch);
    } while (status == STATUS_OK && from != NULL);
    pthread_mutex_unlock(&certificates->tenants->change);
    return status;
}
