#include "auth/tenant.h"

#include <pthread.h>
#include <stdio.h>

#include "auth/auth.h"
#include "auth/auth_apikey.h"
#include "auth/auth_index.h"
#include "auth/tenant_auth.h"
#include "auth/tenant_rows.h"
#include "config/base/clock.h"
#include "config/base/mem.h"
#include "config/base/utf8.h"

/* Records live as long as the directory and are never moved, so a list may be read while it grows.
 *
 *   first ─► tenant ─► tenant ─► …        in the order in which they were made
 *              └─ keys.first ─► key ─► key ─► …
 *   admin.first ─► key ─► …
 */
struct key_record {
    struct tenant_rows_key row;
    uint8_t name[16];             /* HMAC(domain secret, "key:" id); zeros for an admin key */
    struct tenant_record *tenant; /* NULL: an admin key */
    struct key_record *next;
};

struct key_list {
    struct key_record *first;
    struct key_record *last;
};

struct tenant_record {
    struct tenant tenant;
    uint8_t name[16];   /* HMAC(domain secret, "tenant:" id) */
    uint8_t domain[16]; /* HMAC(domain secret, "domain:" id) */
    struct key_list keys;
    struct tenant_record *next;
};

struct tenants {
    struct store *store;
    const struct clock *clock;
    uint8_t pepper[AUTH_CRYPTO_BYTES];
    uint8_t domain[AUTH_CRYPTO_BYTES];
    pthread_mutex_t change;  /* one change at a time, from its checks to its place in memory */
    pthread_rwlock_t memory; /* all below; a writer holds `change` too */
    struct auth_index by_id;
    struct auth_index keys_by_id;
    struct auth_index keys_by_name; /* tenants' keys only */
    struct tenant_record *first;
    struct tenant_record *last;
    struct key_list admin;
};

static int64_t now_s(const struct tenants *tenants)
{
    return clock_wall_us(tenants->clock) / 1000000;
}

static struct slice name_slice(const uint8_t name[16])
{
    return (struct slice){(const char *)name, 16};
}

/* The first 16 bytes of HMAC(domain secret, kind id): computed once, when a record is made, so that
 * a request costs the one HMAC of its credential. */
static enum status name_make(const struct tenants *tenants, const char *kind, const char *id,
                             uint8_t out[16])
{
    char message[16 + LIMIT_ID_BYTES];
    uint8_t mac[AUTH_CRYPTO_BYTES];
    snprintf(message, sizeof message, "%s%s", kind, id);
    TRY(auth_crypto_hmac(tenants->domain, slice_of(message), mac));
    memcpy(out, mac, 16);
    return STATUS_OK;
}

static enum status name_tenant(const struct tenants *tenants, struct tenant_record *record)
{
    TRY(name_make(tenants, "tenant:", record->tenant.id, record->name));
    return name_make(tenants, "domain:", record->tenant.id, record->domain);
}

static enum status name_key(const struct tenants *tenants, struct key_record *record)
{
    if (record->tenant == NULL)
        return STATUS_OK;
    return name_make(tenants, "key:", record->row.key.id, record->name);
}

/* --- memory; the caller holds `memory` for writing, or is alone --- */

static void memory_add_tenant(struct tenants *tenants, struct tenant_record *record)
{
    auth_index_put(&tenants->by_id, slice_of(record->tenant.id), record);
    if (tenants->last != NULL)
        tenants->last->next = record;
    else
        tenants->first = record;
    tenants->last = record;
}

static void memory_add_key(struct tenants *tenants, struct key_record *record)
{
    struct key_list *list = record->tenant != NULL ? &record->tenant->keys : &tenants->admin;
    auth_index_put(&tenants->keys_by_id, slice_of(record->row.key.id), record);
    if (record->tenant != NULL)
        auth_index_put(&tenants->keys_by_name, name_slice(record->name), record);
    if (list->last != NULL)
        list->last->next = record;
    else
        list->first = record;
    list->last = record;
}

/* Room for one more. Under `change`, so that nobody else changes the table while it is copied;
 * readers wait for the exchange alone, not for a million slots. */
static enum status memory_reserve(struct tenants *tenants, struct auth_index *index)
{
    struct auth_index larger;
    TRY(auth_index_copy_larger(index, index->count + 1, &larger));
    pthread_rwlock_wrlock(&tenants->memory);
    auth_index_exchange(index, &larger);
    pthread_rwlock_unlock(&tenants->memory);
    auth_index_deinit(&larger);
    return STATUS_OK;
}

static enum status load_tenant(void *context, const struct tenant *tenant)
{
    struct tenants *tenants = context;
    if (tenants->by_id.count >= LIMIT_TENANTS)
        FAIL(STATUS_LIMIT, "the database holds more than %d tenants", LIMIT_TENANTS);
    TRY(auth_index_reserve(&tenants->by_id, tenants->by_id.count + 1));
    struct tenant_record *record = mem_zalloc(1, sizeof *record);
    if (record == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a tenant");
    record->tenant = *tenant;
    enum status status = name_tenant(tenants, record);
    if (status != STATUS_OK) {
        mem_free(record);
        return status;
    }
    memory_add_tenant(tenants, record);
    return STATUS_OK;
}

static enum status load_key(void *context, const struct tenant_rows_key *row)
{
    struct tenants *tenants = context;
    if (tenants->keys_by_id.count >= LIMIT_KEYS)
        FAIL(STATUS_LIMIT, "the database holds more than %d keys", LIMIT_KEYS);
    TRY(auth_index_reserve(&tenants->keys_by_id, tenants->keys_by_id.count + 1));
    TRY(auth_index_reserve(&tenants->keys_by_name, tenants->keys_by_name.count + 1));
    struct key_record *record = mem_zalloc(1, sizeof *record);
    if (record == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a key");
    record->row = *row;
    record->tenant = auth_index_get(&tenants->by_id, slice_of(row->key.tenant_id));
    if (record->tenant == NULL && row->key.tenant_id[0] != '\0') { /* never an admin key by loss */
        mem_free(record);
        FAIL(STATUS_CORRUPT, "a key in the database belongs to no tenant");
    }
    enum status status = name_key(tenants, record);
    if (status != STATUS_OK) {
        mem_free(record);
        return status;
    }
    memory_add_key(tenants, record);
    return STATUS_OK;
}

static enum status open_load(struct tenants *tenants)
{
    struct sqlite3 *connection;
    TRY(store_begin(tenants->store, &connection));
    enum status status = tenant_rows_load(connection, tenants, load_tenant);
    if (status == STATUS_OK)
        status = tenant_rows_load_keys(connection, tenants, load_key);
    enum status ended = store_end(tenants->store, false);
    return status != STATUS_OK ? status : ended;
}

enum status tenants_open(struct tenants **out, const struct tenants_options *options)
{
    *out = NULL;
    struct tenants *tenants = mem_zalloc(1, sizeof *tenants);
    if (tenants == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the tenants");
    tenants->store = options->store;
    tenants->clock = options->clock != NULL ? options->clock : clock_system();
    memcpy(tenants->pepper, options->pepper, sizeof tenants->pepper);
    memcpy(tenants->domain, options->domain, sizeof tenants->domain);
    pthread_mutex_init(&tenants->change, NULL);
    pthread_rwlock_init(&tenants->memory, NULL);
    enum status status = open_load(tenants);
    if (status != STATUS_OK) {
        tenants_close(tenants);
        return status;
    }
    *out = tenants;
    return STATUS_OK;
}

static void close_keys(struct key_list *list)
{
    struct key_record *next;
    for (struct key_record *record = list->first; record != NULL; record = next) {
        next = record->next;
        mem_free(record);
    }
}

void tenants_close(struct tenants *tenants)
{
    if (tenants == NULL)
        return;
    struct tenant_record *next;
    for (struct tenant_record *record = tenants->first; record != NULL; record = next) {
        next = record->next;
        close_keys(&record->keys);
        mem_free(record);
    }
    close_keys(&tenants->admin);
    auth_index_deinit(&tenants->by_id);
    auth_index_deinit(&tenants->keys_by_id);
    auth_index_deinit(&tenants->keys_by_name);
    pthread_rwlock_destroy(&tenants->memory);
    pthread_mutex_destroy(&tenants->change);
    auth_crypto_forget(tenants, sizeof *tenants);
    mem_free(tenants);
}

/* --- checks --- */

static enum status check_name(struct slice name)
{
    if (name.length == 0 || name.length >= LIMIT_NAME_BYTES)
        FAIL_PARAM(STATUS_INVALID, "name", "name must have 1 to %d bytes", LIMIT_NAME_BYTES - 1);
    if (!utf8_is_valid(name.bytes, name.length))
        FAIL_PARAM(STATUS_INVALID, "name", "name must be UTF-8");
    for (size_t i = 0; i < name.length; i++) {
        if ((unsigned char)name.bytes[i] < 0x20 || name.bytes[i] == 0x7f)
            FAIL_PARAM(STATUS_INVALID, "name", "name must not hold control characters");
    }
    return STATUS_OK;
}

static void copy_text(char *out, size_t capacity, struct slice text)
{
    ASSERT(text.length < capacity);
    if (text.length > 0)
        memcpy(out, text.bytes, text.length);
    out[text.length] = '\0';
}

/* --- audit --- */

static enum status change_audit(struct tenants *tenants, struct sqlite3 *connection,
                                const struct audit_actor *actor, const char *type,
                                const char *subject, struct buffer *detail)
{
    struct audit_row row = {.at_us = clock_wall_us(tenants->clock)};
    TRY(detail->status);
    ASSERT(detail->length < sizeof row.detail);
    snprintf(row.type, sizeof row.type, "%s", type);
    snprintf(row.actor_key_id, sizeof row.actor_key_id, "%s", actor->key_id);
    snprintf(row.peer, sizeof row.peer, "%s", actor->peer);
    snprintf(row.request_id, sizeof row.request_id, "%s", actor->request_id);
    snprintf(row.subject, sizeof row.subject, "%s", subject);
    copy_text(row.detail, sizeof row.detail, buffer_slice(detail));
    return tenant_rows_audit(connection, &row);
}

/* A name of 127 bytes, each escaped to six, is longer than the column: such a name is left out. */
static void detail_name(struct buffer *detail, const char *name)
{
    buffer_append_text(detail, "{\"name\":");
    size_t before = detail->length;
    buffer_append_json_string(detail, slice_of(name));
    if (detail->status == STATUS_OK && detail->length > 400) {
        detail->length = before;
        buffer_append_text(detail, "null");
    }
}

/* --- tenants --- */

static enum status create_commit(struct tenants *tenants, const struct audit_actor *actor,
                                 const struct tenant *tenant)
{
    struct sqlite3 *connection;
    struct buffer detail;
    buffer_init(&detail, 2048);
    detail_name(&detail, tenant->name);
    buffer_printf(&detail, ",\"weight\":%u}", tenant->weight);
    enum status status = store_begin(tenants->store, &connection);
    if (status == STATUS_OK) {
        status = tenant_rows_insert(connection, tenant);
        if (status == STATUS_OK)
            status =
                change_audit(tenants, connection, actor, "tenant.created", tenant->id, &detail);
        enum status ended = store_end(tenants->store, status == STATUS_OK);
        status = status != STATUS_OK ? status : ended;
    }
    buffer_deinit(&detail);
    if (status == STATUS_EXISTS)
        FAIL_PARAM(STATUS_EXISTS, "name", "there is a tenant of this name already");
    return status;
}

/* Under `change`. Everything that can fail comes before the commit, memory after it. */
static enum status create_locked(struct tenants *tenants, const struct audit_actor *actor,
                                 struct slice name, uint32_t weight, struct tenant *out)
{
    if (tenants->by_id.count >= LIMIT_TENANTS)
        FAIL(STATUS_LIMIT, "there are %d tenants, which is the limit", LIMIT_TENANTS);
    struct tenant_record *record = mem_zalloc(1, sizeof *record);
    if (record == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a tenant");
    struct tenant *tenant = &record->tenant;
    char random[21];
    auth_apikey_random(random, sizeof random - 1);
    snprintf(tenant->id, sizeof tenant->id, "tnt_%s", random);
    copy_text(tenant->name, sizeof tenant->name, name);
    tenant->state = TENANT_ACTIVE;
    tenant->weight = weight;
    tenant->created_at_s = now_s(tenants);
    enum status status = name_tenant(tenants, record);
    if (status == STATUS_OK)
        status = memory_reserve(tenants, &tenants->by_id);
    if (status == STATUS_OK)
        status = create_commit(tenants, actor, tenant);
    if (status != STATUS_OK) {
        mem_free(record);
        return status;
    }
    *out = *tenant;
    pthread_rwlock_wrlock(&tenants->memory);
    memory_add_tenant(tenants, record);
    pthread_rwlock_unlock(&tenants->memory);
    return STATUS_OK;
}

enum status tenants_create(struct tenants *tenants, const struct audit_actor *actor,
                           struct slice name, uint32_t weight, struct tenant *out)
{
    TRY(check_name(name));
    if (weight < 1 || weight > 1000)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "weight", "weight must be 1 to 1000");
    pthread_mutex_lock(&tenants->change);
    enum status status = create_locked(tenants, actor, name, weight, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

enum status tenants_get(struct tenants *tenants, struct slice id, struct tenant *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_record *record = auth_index_get(&tenants->by_id, id);
    if (record != NULL)
        *out = record->tenant;
    pthread_rwlock_unlock(&tenants->memory);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    return STATUS_OK;
}

enum status tenants_list(struct tenants *tenants, struct slice after, struct tenant *out,
                         size_t capacity, size_t *count, bool *has_more)
{
    *count = 0;
    *has_more = false;
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_record *record = tenants->first;
    bool is_known = true;
    if (after.length > 0) {
        record = auth_index_get(&tenants->by_id, after);
        is_known = record != NULL;
        record = is_known ? record->next : NULL;
    }
    for (; record != NULL && *count < capacity; record = record->next)
        out[(*count)++] = record->tenant;
    *has_more = record != NULL;
    pthread_rwlock_unlock(&tenants->memory);
    if (!is_known)
        FAIL_PARAM(STATUS_INVALID, "after", "there is no tenant of this id to begin after");
    return STATUS_OK;
}

/* --- keys --- */

static enum status adopt_commit(struct tenants *tenants, const struct audit_actor *actor,
                                const struct tenant_rows_key *row)
{
    struct sqlite3 *connection;
    struct buffer detail;
    buffer_init(&detail, 2048);
    detail_name(&detail, row->key.name);
    buffer_printf(&detail, ",\"tenant\":\"%s\",\"scopes\":%u}", row->key.tenant_id,
                  row->key.scopes);
    enum status status = store_begin(tenants->store, &connection);
    if (status == STATUS_OK) {
        status = tenant_rows_insert_key(connection, row);
        if (status == STATUS_OK)
            status = change_audit(tenants, connection, actor, "key.created", row->key.id, &detail);
        enum status ended = store_end(tenants->store, status == STATUS_OK);
        status = status != STATUS_OK ? status : ended;
    }
    buffer_deinit(&detail);
    return status;
}

static enum status adopt_owner(struct tenants *tenants, struct slice tenant_id, uint32_t scopes,
                               struct tenant_record **out)
{
    *out = NULL;
    if (tenant_id.length == 0) {
        if (scopes == 0 || (scopes & ~(uint32_t)AUTH_SCOPES_ALL) != 0)
            FAIL_PARAM(STATUS_INVALID, "scopes", "an admin key has at least one known scope");
        return STATUS_OK;
    }
    if (scopes != 0)
        FAIL_PARAM(STATUS_INVALID, "scopes", "a tenant's key has no admin scopes");
    *out = auth_index_get(&tenants->by_id, tenant_id);
    if (*out == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    if ((*out)->tenant.state == TENANT_ARCHIVED)
        FAIL(STATUS_CONFLICT, "the tenant is archived");
    return STATUS_OK;
}

/* Under `change`; only `memory`'s writers change what is read here, and they hold `change`. */
static enum status adopt_locked(struct tenants *tenants, const struct audit_actor *actor,
                                struct slice tenant_id, struct slice name, uint32_t scopes,
                                struct slice value, struct tenant_key *out)
{
    struct tenant_record *owner;
    struct auth_apikey read;
    TRY(adopt_owner(tenants, tenant_id, scopes, &owner));
    TRY(auth_apikey_read(value, &read));
    ASSERT(read.is_admin == (owner == NULL));
    if (tenants->keys_by_id.count >= LIMIT_KEYS)
        FAIL(STATUS_LIMIT, "there are %d keys, which is the limit", LIMIT_KEYS);
    struct key_record *record = mem_zalloc(1, sizeof *record);
    if (record == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a key");
    struct tenant_key *key = &record->row.key;
    record->tenant = owner;
    copy_text(key->id, sizeof key->id, slice_of(read.id));
    copy_text(key->tenant_id, sizeof key->tenant_id, tenant_id);
    copy_text(key->name, sizeof key->name, name);
    auth_apikey_redact(value, key->redacted);
    key->scopes = scopes;
    key->created_at_s = now_s(tenants);
    enum status status = auth_crypto_hmac(tenants->pepper, value, record->row.hash);
    if (status == STATUS_OK)
        status = name_key(tenants, record);
    if (status == STATUS_OK)
        status = memory_reserve(tenants, &tenants->keys_by_id);
    if (status == STATUS_OK)
        status = memory_reserve(tenants, &tenants->keys_by_name);
    if (status == STATUS_OK)
        status = adopt_commit(tenants, actor, &record->row);
    if (status != STATUS_OK) {
        mem_free(record);
        return status;
    }
    *out = *key;
    pthread_rwlock_wrlock(&tenants->memory);
    memory_add_key(tenants, record);
    pthread_rwlock_unlock(&tenants->memory);
    return STATUS_OK;
}

enum status tenants_key_adopt(struct tenants *tenants, const struct audit_actor *actor,
                              struct slice tenant_id, struct slice name, uint32_t scopes,
                              const char *value, struct tenant_key *out)
{
    TRY(check_name(name));
    pthread_mutex_lock(&tenants->change);
    enum status status =
        adopt_locked(tenants, actor, tenant_id, name, scopes, slice_of(value), out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

enum status tenants_key_create(struct tenants *tenants, const struct audit_actor *actor,
                               struct slice tenant_id, struct slice name, uint32_t scopes,
                               struct tenant_key *out, char value[LIMIT_KEY_BYTES])
{
    auth_apikey_make(tenant_id.length == 0, value);
    enum status status = tenants_key_adopt(tenants, actor, tenant_id, name, scopes, value, out);
    if (status != STATUS_OK)
        auth_crypto_forget(value, LIMIT_KEY_BYTES);
    return status;
}

/* The key of this id if it belongs to the tenant ("": to the admins); NULL otherwise. */
static struct key_record *key_of(struct tenants *tenants, struct slice tenant_id,
                                 struct slice key_id)
{
    struct key_record *record = auth_index_get(&tenants->keys_by_id, key_id);
    return record != NULL && slice_is(tenant_id, record->row.key.tenant_id) ? record : NULL;
}

enum status tenants_key_list(struct tenants *tenants, struct slice tenant_id, struct slice after,
                             struct tenant_key *out, size_t capacity, size_t *count, bool *has_more)
{
    *count = 0;
    *has_more = false;
    pthread_rwlock_rdlock(&tenants->memory);
    struct tenant_record *owner = auth_index_get(&tenants->by_id, tenant_id);
    bool has_owner = owner != NULL || tenant_id.length == 0;
    struct key_list *list = owner != NULL ? &owner->keys : &tenants->admin;
    struct key_record *record = has_owner ? list->first : NULL;
    bool is_known = true;
    if (after.length > 0) {
        record = key_of(tenants, tenant_id, after);
        is_known = record != NULL;
        record = is_known ? record->next : NULL;
    }
    for (; record != NULL && *count < capacity; record = record->next)
        out[(*count)++] = record->row.key;
    *has_more = record != NULL;
    pthread_rwlock_unlock(&tenants->memory);
    if (!has_owner)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    if (!is_known)
        FAIL_PARAM(STATUS_INVALID, "after", "there is no key of this id to begin after");
    return STATUS_OK;
}

static enum status revoke_commit(struct tenants *tenants, const struct audit_actor *actor,
                                 const struct tenant_key *key, int64_t revoked_at_s)
{
    struct sqlite3 *connection;
    struct buffer detail;
    buffer_init(&detail, 2048);
    buffer_printf(&detail, "{\"tenant\":\"%s\"}", key->tenant_id);
    enum status status = store_begin(tenants->store, &connection);
    if (status == STATUS_OK) {
        status = tenant_rows_revoke_key(connection, key->id, revoked_at_s);
        if (status == STATUS_OK)
            status = change_audit(tenants, connection, actor, "key.revoked", key->id, &detail);
        enum status ended = store_end(tenants->store, status == STATUS_OK);
        status = status != STATUS_OK ? status : ended;
    }
    buffer_deinit(&detail);
    return status;
}

static enum status revoke_locked(struct tenants *tenants, const struct audit_actor *actor,
                                 struct slice tenant_id, struct slice key_id,
                                 struct tenant_key *out)
{
    struct key_record *record = key_of(tenants, tenant_id, key_id);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no key of this id");
    struct tenant_key *key = &record->row.key;
    if (key->revoked_at_s == 0) {
        int64_t at_s = now_s(tenants);
        TRY(revoke_commit(tenants, actor, key, at_s));
        pthread_rwlock_wrlock(&tenants->memory);
        key->revoked_at_s = at_s;
        pthread_rwlock_unlock(&tenants->memory);
    }
    *out = *key;
    return STATUS_OK;
}

enum status tenants_key_revoke(struct tenants *tenants, const struct audit_actor *actor,
                               struct slice tenant_id, struct slice key_id, struct tenant_key *out)
{
    pthread_mutex_lock(&tenants->change);
    enum status status = revoke_locked(tenants, actor, tenant_id, key_id, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- for auth --- */

static enum tenant_match match_standing(const struct key_record *record, int64_t at_s)
{
    const struct tenant_key *key = &record->row.key;
    if (key->revoked_at_s != 0)
        return TENANT_MATCH_REVOKED;
    if (key->expires_at_s != 0 && at_s >= key->expires_at_s)
        return TENANT_MATCH_EXPIRED;
    if (record->tenant != NULL && record->tenant->tenant.state == TENANT_ARCHIVED)
        return TENANT_MATCH_ARCHIVED;
    if (record->tenant != NULL && record->tenant->tenant.state == TENANT_SUSPENDED)
        return TENANT_MATCH_SUSPENDED;
    return TENANT_MATCH_OPEN;
}

static void match_principal(const struct key_record *record, struct principal *out)
{
    const struct tenant_record *owner = record->tenant;
    *out = (struct principal){.is_admin = owner == NULL, .scopes = record->row.key.scopes};
    memcpy(out->key_id, record->row.key.id, LIMIT_ID_BYTES);
    if (owner == NULL)
        return;
    memcpy(out->tenant_id, owner->tenant.id, LIMIT_ID_BYTES);
    out->weight = owner->tenant.weight;
    memcpy(out->tenant_hash, owner->name, sizeof out->tenant_hash);
    memcpy(out->key_hash, record->name, sizeof out->key_hash);
    memcpy(out->domain, owner->domain, sizeof out->domain);
}

enum tenant_match tenants_key_match(struct tenants *tenants, const char *key_id,
                                    const uint8_t hash[AUTH_CRYPTO_BYTES], struct principal *out)
{
    static const uint8_t nobody[AUTH_CRYPTO_BYTES];
    int64_t at_s = now_s(tenants);
    pthread_rwlock_rdlock(&tenants->memory);
    struct key_record *record = auth_index_get(&tenants->keys_by_id, slice_of(key_id));
    bool is_equal =
        auth_crypto_equals(record != NULL ? record->row.hash : nobody, hash, AUTH_CRYPTO_BYTES);
    enum tenant_match match = TENANT_MATCH_WRONG;
    if (record != NULL && is_equal) {
        match = match_standing(record, at_s);
        match_principal(record, out);
    }
    pthread_rwlock_unlock(&tenants->memory);
    return match;
}

enum status tenants_find_account(struct tenants *tenants, const uint8_t tenant_hash[16],
                                 const uint8_t key_hash[16], char tenant_id[LIMIT_ID_BYTES],
                                 char key_id[LIMIT_ID_BYTES])
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct key_record *record = auth_index_get(&tenants->keys_by_name, name_slice(key_hash));
    bool is_found = record != NULL && memcmp(record->tenant->name, tenant_hash, 16) == 0;
    if (is_found) {
        memcpy(tenant_id, record->tenant->tenant.id, LIMIT_ID_BYTES);
        memcpy(key_id, record->row.key.id, LIMIT_ID_BYTES);
    }
    pthread_rwlock_unlock(&tenants->memory);
    if (!is_found)
        FAIL(STATUS_NOT_FOUND, "there is no key of this name");
    return STATUS_OK;
}

size_t tenants_key_count(struct tenants *tenants)
{
    pthread_rwlock_rdlock(&tenants->memory);
    size_t count = tenants->keys_by_id.count;
    pthread_rwlock_unlock(&tenants->memory);
    return count;
}

size_t tenants_admin_key_count(struct tenants *tenants, uint32_t scopes)
{
    size_t count = 0;
    pthread_rwlock_rdlock(&tenants->memory);
    for (const struct key_record *record = tenants->admin.first; record != NULL;
         record = record->next) {
        if (record->row.key.revoked_at_s == 0 && (record->row.key.scopes & scopes) == scopes)
            count++;
    }
    pthread_rwlock_unlock(&tenants->memory);
    return count;
}

/* --- audit --- */

enum status tenants_audit_list(struct tenants *tenants, int64_t after, struct audit_row *out,
                               size_t capacity, size_t *count, bool *has_more)
{
    struct sqlite3 *connection;
    size_t more = 0;
    struct audit_row next;
    *count = 0;
    *has_more = false;
    TRY(store_begin(tenants->store, &connection));
    enum status status = tenant_rows_load_audit(connection, after, out, capacity, count);
    if (status == STATUS_OK && *count == capacity)
        status = tenant_rows_load_audit(connection, capacity > 0 ? out[capacity - 1].id : after,
                                        &next, 1, &more);
    *has_more = more > 0;
    enum status ended = store_end(tenants->store, false);
    return status != STATUS_OK ? status : ended;
}
