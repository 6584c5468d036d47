#include "auth/tenants/certificate.h"

#include <stddef.h>
#include <stdio.h>

#include "auth/tenants/certificate_records.h"
#include "auth/tenants/certificate_rows.h"
#include "auth/tenants/tenant.h"
#include "config/base/mem.h"

const char *certificate_match_name(enum certificate_match match)
{
    static const char *const names[] = {"fingerprint", "uri", "dns"};
    return names[match];
}

/* --- records --- */

static struct slice records_key(enum certificate_match match, struct slice value,
                                char out[LIMIT_PEER_NAME_BYTES + 16])
{
    int length = snprintf(out, LIMIT_PEER_NAME_BYTES + 16, "%s:%.*s", certificate_match_name(match),
                          (int)value.length, value.bytes);
    ASSERT(length > 0 && length < LIMIT_PEER_NAME_BYTES + 16);
    return (struct slice){out, (size_t)length};
}

struct certificate_record *certificate_records_find(struct certificates *certificates,
                                                    enum certificate_match match,
                                                    struct slice value)
{
    char key[LIMIT_PEER_NAME_BYTES + 16];
    if (value.length >= LIMIT_PEER_NAME_BYTES)
        return NULL;
    struct certificate_record *record =
        auth_index_get(&certificates->by_value, records_key(match, value, key));
    while (record != NULL && record->later != NULL)
        record = record->later;
    return record;
}

enum status certificate_records_make(struct certificates *certificates,
                                     const struct certificate *row, struct certificate_record **out)
{
    struct certificate_record *record = mem_zalloc(1, sizeof *record);
    *out = NULL;
    if (record == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a certificate");
    record->row = *row;
    record->written_s = row->last_used_at_s;
    atomic_init(&record->used_at_s, row->last_used_at_s);
    (void)records_key(row->match, slice_of(row->value), record->key);
    enum status status = tenant_records_name(certificates->tenants, "key:", row->id, record->hash);
    if (status == STATUS_OK)
        *out = record;
    else
        mem_free(record);
    return status;
}

/* Fills a larger table beside the old one, so that look-ups wait only for the exchange of the
 * two. */
static enum status reserve_one(struct certificates *certificates, struct auth_index *index)
{
    struct auth_index larger;
    TRY(auth_index_copy_larger(index, index->count + 1, &larger));
    pthread_rwlock_wrlock(&certificates->lock);
    auth_index_exchange(index, &larger);
    pthread_rwlock_unlock(&certificates->lock);
    auth_index_deinit(&larger);
    return STATUS_OK;
}

enum status certificate_records_reserve(struct certificates *certificates)
{
    TRY(reserve_one(certificates, &certificates->by_id));
    TRY(reserve_one(certificates, &certificates->by_value));
    return reserve_one(certificates, &certificates->by_hash);
}

void certificate_records_add(struct certificates *certificates, struct certificate_record *record)
{
    pthread_rwlock_wrlock(&certificates->lock);
    struct certificate_record *before =
        certificate_records_find(certificates, record->row.match, slice_of(record->row.value));
    if (before != NULL)
        before->later = record;
    else
        auth_index_put(&certificates->by_value, slice_of(record->key), record);
    auth_index_put(&certificates->by_id, slice_of(record->row.id), record);
    auth_index_put(&certificates->by_hash,
                   (struct slice){(const char *)record->hash, sizeof record->hash}, record);
    if (certificates->last != NULL)
        certificates->last->next = record;
    else
        certificates->first = record;
    certificates->last = record;
    pthread_rwlock_unlock(&certificates->lock);
}

void certificate_records_row(const struct certificate_record *record, struct certificate *out)
{
    *out = record->row;
    out->last_used_at_s = atomic_load(&record->used_at_s);
}

/* --- start and end --- */

static enum status load_row(void *context, const struct certificate *row)
{
    struct certificates *certificates = context;
    struct certificate_record *record;
    bool is_owned = row->tenant_id[0] == '\0' ||
                    tenant_directory_find(certificates->tenants, slice_of(row->tenant_id)) != NULL;
    if (!is_owned) /* it must not become an admin's because its tenant is missing */
        FAIL(STATUS_CORRUPT, "a certificate in the database belongs to no tenant");
    TRY(certificate_records_reserve(certificates));
    TRY(certificate_records_make(certificates, row, &record));
    certificate_records_add(certificates, record);
    return STATUS_OK;
}

static enum status open_load(struct certificates *certificates)
{
    struct sqlite3 *connection;
    struct store *store = certificates->tenants->store;
    TRY(store_begin(store, &connection));
    enum status status = certificate_rows_load(connection, certificates, load_row);
    enum status ended = store_end(store, false);
    return status != STATUS_OK ? status : ended;
}

enum status certificates_open(struct certificates **out, struct tenants *tenants)
{
    *out = NULL;
    struct certificates *certificates = mem_zalloc(1, sizeof *certificates);
    if (certificates == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for certificates");
    certificates->tenants = tenants;
    pthread_rwlock_init(&certificates->lock, NULL);
    enum status status = open_load(certificates);
    if (status != STATUS_OK) {
        certificates_close(certificates);
        return status;
    }
    *out = certificates;
    return STATUS_OK;
}

void certificates_close(struct certificates *certificates)
{
    if (certificates == NULL)
        return;
    struct certificate_record *next;
    for (struct certificate_record *record = certificates->first; record != NULL; record = next) {
        next = record->next;
        mem_free(record);
    }
    auth_index_deinit(&certificates->by_id);
    auth_index_deinit(&certificates->by_value);
    auth_index_deinit(&certificates->by_hash);
    pthread_rwlock_destroy(&certificates->lock);
    mem_free(certificates);
}

/* Takes over the uses that were noted while the copy was made. The caller holds `lock` for
 * writing. */
static void adopt_used(struct certificates *certificates, struct certificates *copy)
{
    struct certificate_record *record = certificates->first;
    for (; record != NULL; record = record->next) {
        struct certificate_record *now = auth_index_get(&copy->by_id, slice_of(record->row.id));
        if (now != NULL)
            atomic_store(&now->used_at_s, atomic_load(&record->used_at_s));
    }
}

void certificate_records_adopt(struct certificates *certificates, struct certificates *copy)
{
    enum {
        FROM = offsetof(struct certificates, by_id),
        BYTES = sizeof(struct certificates) - FROM
    };
    char rows[BYTES];
    pthread_rwlock_wrlock(&certificates->lock);
    adopt_used(certificates, copy);
    memcpy(rows, (char *)certificates + FROM, BYTES);
    memcpy((char *)certificates + FROM, (char *)copy + FROM, BYTES);
    memcpy((char *)copy + FROM, rows, BYTES);
    pthread_rwlock_unlock(&certificates->lock);
}

/* --- looking --- */

static bool is_of(const struct certificate_record *record, struct slice tenant_id)
{
    return record != NULL && slice_is(tenant_id, record->row.tenant_id);
}

enum status certificate_get(struct certificates *certificates, struct slice tenant_id,
                            struct slice id, struct certificate *out)
{
    pthread_rwlock_rdlock(&certificates->lock);
    const struct certificate_record *record = auth_index_get(&certificates->by_id, id);
    bool is_found = is_of(record, tenant_id);
    if (is_found)
        certificate_records_row(record, out);
    pthread_rwlock_unlock(&certificates->lock);
    if (!is_found)
        FAIL(STATUS_NOT_FOUND, "There is no certificate of this id.");
    return STATUS_OK;
}

/* Returns the first record of this tenant (NULL: of any) from `record` on. */
static const struct certificate_record *list_next(const struct certificate_record *record,
                                                  const struct slice *tenant_id)
{
    while (record != NULL && tenant_id != NULL && !is_of(record, *tenant_id))
        record = record->next;
    return record;
}

static enum status list_page(struct certificates *certificates, const struct slice *tenant_id,
                             struct slice after, struct certificate *out, size_t capacity,
                             size_t *count, bool *has_more)
{
    *count = 0;
    pthread_rwlock_rdlock(&certificates->lock);
    const struct certificate_record *record = certificates->first;
    bool is_known = true;
    if (after.length > 0) {
        record = auth_index_get(&certificates->by_id, after);
        is_known = record != NULL && list_next(record, tenant_id) == record;
        record = is_known ? record->next : NULL;
    }
    record = list_next(record, tenant_id);
    for (; record != NULL && *count < capacity; record = list_next(record->next, tenant_id))
        certificate_records_row(record, &out[(*count)++]);
    *has_more = record != NULL;
    pthread_rwlock_unlock(&certificates->lock);
    if (!is_known)
        FAIL_PARAM(STATUS_INVALID, "after", "There is no certificate of this id to begin after.");
    return STATUS_OK;
}

enum status certificate_list(struct certificates *certificates, struct slice tenant_id,
                             struct slice after, struct certificate *out, size_t capacity,
                             size_t *count, bool *has_more)
{
    struct tenant tenant;
    *count = 0;
    *has_more = false;
    if (tenant_id.length > 0)
        TRY(tenants_get(certificates->tenants, tenant_id, &tenant));
    return list_page(certificates, &tenant_id, after, out, capacity, count, has_more);
}

enum status certificate_list_all(struct certificates *certificates, struct slice after,
                                 struct certificate *out, size_t capacity, size_t *count,
                                 bool *has_more)
{
    return list_page(certificates, NULL, after, out, capacity, count, has_more);
}

/* --- for auth --- */

/* Returns the state of the row itself, without its tenant's. */
static enum tenant_match match_row(const struct certificate *row, int64_t now_s)
{
    if (row->revoked_at_s != 0)
        return TENANT_MATCH_REVOKED;
    return row->expires_at_s != 0 && now_s >= row->expires_at_s ? TENANT_MATCH_EXPIRED
                                                                : TENANT_MATCH_OPEN;
}

/* Stores at most once a second for each certificate, because all requests share the cache line. */
static void match_note_use(struct certificates *certificates, struct certificate_record *record)
{
    int64_t now_s = tenant_directory_now_s(certificates->tenants);
    if (atomic_load_explicit(&record->used_at_s, memory_order_relaxed) != now_s)
        atomic_store_explicit(&record->used_at_s, now_s, memory_order_relaxed);
}

/* The caller holds `lock`. */
static enum tenant_match match_record(struct certificates *certificates,
                                      const struct certificate_record *record,
                                      struct principal *out)
{
    bool is_admin = record->row.tenant_id[0] == '\0';
    enum tenant_match match =
        match_row(&record->row, tenant_directory_now_s(certificates->tenants));
    enum tenant_match of_tenant = TENANT_MATCH_OPEN;
    if (is_admin) {
        memset(out, 0, offsetof(struct principal, visible));
        out->is_admin = true;
    } else {
        of_tenant = tenants_match_tenant(certificates->tenants, record->row.tenant_id, out);
        memcpy(out->key_hash, record->hash, sizeof out->key_hash);
    }
    out->scopes = record->row.scopes;
    memcpy(out->key_id, record->row.id, sizeof out->key_id);
    return match != TENANT_MATCH_OPEN ? match : of_tenant;
}

/* Finds the row of the certificate's names. Rows that are not revoked count first, because a
 * revoked name may have a new row; when two such rows match, the result is ambiguous. A revoked row
 * is returned only when no other row matches. */
static struct certificate_record *match_names(struct certificates *certificates,
                                              const struct peer_certificate *peer,
                                              bool *is_ambiguous)
{
    struct certificate_record *found = NULL;
    size_t open = 0;
    for (size_t i = 0; i < peer->name_count; i++) {
        const struct peer_name *name = &peer->names[i];
        struct certificate_record *record = certificate_records_find(
            certificates, name->kind == PEER_NAME_URI ? CERTIFICATE_URI : CERTIFICATE_DNS,
            name->text);
        if (record == NULL || record == found)
            continue;
        bool is_open = record->row.revoked_at_s == 0;
        open += is_open;
        if (found == NULL || is_open)
            found = record;
    }
    *is_ambiguous = open > 1;
    return open > 1 ? NULL : found;
}

static struct slice match_hex(const uint8_t fingerprint[32], char out[65])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 32; i++) {
        out[2 * i] = digits[fingerprint[i] >> 4];
        out[2 * i + 1] = digits[fingerprint[i] & 15];
    }
    out[64] = '\0';
    return (struct slice){out, 64};
}

enum tenant_match certificates_match(struct certificates *certificates,
                                     const struct peer_certificate *peer, struct principal *out,
                                     bool *is_ambiguous)
{
    char hex[65];
    enum tenant_match match = TENANT_MATCH_WRONG;
    *is_ambiguous = false;
    pthread_rwlock_rdlock(&certificates->lock);
    struct certificate_record *record = certificate_records_find(
        certificates, CERTIFICATE_FINGERPRINT, match_hex(peer->fingerprint, hex));
    if (record == NULL)
        record = match_names(certificates, peer, is_ambiguous);
    if (record != NULL)
        match = match_record(certificates, record, out);
    if (match == TENANT_MATCH_OPEN)
        match_note_use(certificates, record);
    pthread_rwlock_unlock(&certificates->lock);
    return match;
}

enum tenant_match certificates_standing(struct certificates *certificates, const char *id,
                                        struct principal *out)
{
    enum tenant_match match = TENANT_MATCH_WRONG;
    pthread_rwlock_rdlock(&certificates->lock);
    const struct certificate_record *record = auth_index_get(&certificates->by_id, slice_of(id));
    if (record != NULL)
        match = match_record(certificates, record, out);
    pthread_rwlock_unlock(&certificates->lock);
    return match;
}

enum status certificates_find_hash(struct certificates *certificates, const uint8_t hash[16],
                                   char id[LIMIT_ID_BYTES])
{
    pthread_rwlock_rdlock(&certificates->lock);
    const struct certificate_record *record =
        auth_index_get(&certificates->by_hash, (struct slice){(const char *)hash, 16});
    if (record != NULL)
        memcpy(id, record->row.id, LIMIT_ID_BYTES);
    pthread_rwlock_unlock(&certificates->lock);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no certificate of this name");
    return STATUS_OK;
}
