#include "auth/tenants/tenant.h"

#include "auth/credential/principal.h"
#include "auth/tenants/price_load.h"
#include "auth/tenants/tenant_auth.h"
#include "auth/tenants/tenant_change.h"
#include "auth/tenants/tenant_directory.h"
#include "auth/tenants/tenant_group_load.h"
#include "auth/tenants/tenant_limits.h"
#include "auth/tenants/tenant_prompt_load.h"
#include "auth/tenants/tenant_view.h"
#include "config/base/mem.h"

static enum status load_tenant(void *context, const struct tenant *tenant, struct slice metadata)
{
    struct tenants *tenants = context;
    if (tenants->by_id.count >= LIMIT_TENANTS)
        FAIL(STATUS_LIMIT, "the database holds more than %d tenants", LIMIT_TENANTS);
    TRY(tenant_directory_reserve(tenants));
    struct tenant_record *record = tenant_directory_make(tenants, tenant, NULL, metadata);
    if (record == NULL)
        return status_note()->status;
    tenant_directory_add(tenants, record);
    return STATUS_OK;
}

static enum status load_key(void *context, const struct tenant_rows_key *row)
{
    struct tenants *tenants = context;
    if (tenants->keys_by_id.count >= LIMIT_KEYS)
        FAIL(STATUS_LIMIT, "the database holds more than %d keys", LIMIT_KEYS);
    struct tenant_record *owner = tenant_directory_find(tenants, slice_of(row->key.tenant_id));
    if (owner == NULL && row->key.tenant_id[0] != '\0') /* it must not become an admin key */
        FAIL(STATUS_CORRUPT, "a key in the database belongs to no tenant");
    TRY(tenant_directory_reserve_key(tenants));
    struct tenant_key_record *record = tenant_directory_make_key(tenants, row, owner);
    if (record == NULL)
        return status_note()->status;
    tenant_directory_add_key(tenants, record);
    return STATUS_OK;
}

static enum status open_load(struct tenants *tenants)
{
    struct sqlite3 *connection;
    TRY(auth_crypto_hmac(tenants->pepper, SLICE("answers that are kept"), tenants->answers));
    TRY(store_begin(tenants->store, &connection));
    /* groups first: each tenant is counted in its group */
    enum status status = tenant_group_load(tenants, connection);
    if (status == STATUS_OK)
        status = tenant_rows_load(connection, tenants, load_tenant);
    if (status == STATUS_OK)
        status = tenant_rows_load_keys(connection, tenants, load_key);
    if (status == STATUS_OK)
        status = tenant_prompt_load(tenants, connection);
    if (status == STATUS_OK)
        status = tenants->limits->load(tenants, connection);
    if (status == STATUS_OK)
        status = price_load(tenants, connection);
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
    tenants->limits = options->limits;
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

void tenants_close(struct tenants *tenants)
{
    if (tenants == NULL)
        return;
    tenant_prompt_free_all(tenants);
    tenant_group_free_all(tenants);
    tenants->limits->free_all(tenants);
    price_free_all(tenants);
    tenant_directory_deinit(tenants);
    pthread_rwlock_destroy(&tenants->memory);
    pthread_mutex_destroy(&tenants->change);
    auth_crypto_forget(tenants, sizeof *tenants);
    mem_free(tenants);
}

const char *tenant_share_name(enum tenant_share share)
{
    return share == TENANT_SHARE_GROUP ? "group" : "private";
}

/* --- looking --- */

enum status tenants_get(struct tenants *tenants, struct slice id, struct tenant *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_record *record = tenant_directory_find(tenants, id);
    if (record != NULL)
        *out = record->tenant;
    pthread_rwlock_unlock(&tenants->memory);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    return STATUS_OK;
}

/* Reads the next name of a tenant's models, without the newline; `*at` moves behind the newline. */
static bool models_next(const char **at, struct slice *name)
{
    *name = (struct slice){*at, strcspn(*at, "\n")};
    *at += name->length + (name->length > 0);
    return name->length > 0;
}

bool tenant_allows_model(const struct tenant *tenant, struct slice model)
{
    struct slice name;
    const char *at = tenant->models;
    bool is_allowed = *at == '\0';
    while (!is_allowed && models_next(&at, &name))
        is_allowed = slice_equals(name, model);
    return is_allowed;
}

void tenant_models_append(const struct tenant *tenant, struct buffer *out)
{
    struct slice name;
    const char *at = tenant->models;
    buffer_append_char(out, '[');
    for (bool is_first = true; models_next(&at, &name); is_first = false) {
        buffer_append_text(out, is_first ? "" : ",");
        buffer_append_json_string(out, name);
    }
    buffer_append_char(out, ']');
}

void tenants_metadata(struct tenants *tenants, struct slice id, struct buffer *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_record *record = tenant_directory_find(tenants, id);
    bool has_any = record != NULL && record->metadata != NULL;
    buffer_append_text(out, has_any ? record->metadata : "{}");
    pthread_rwlock_unlock(&tenants->memory);
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
        record = tenant_directory_find(tenants, after);
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

enum status tenants_key_get(struct tenants *tenants, struct slice tenant_id, struct slice key_id,
                            struct tenant_key *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_key_record *record = tenant_directory_find_key(tenants, tenant_id, key_id);
    if (record != NULL)
        tenant_directory_read_key(record, out);
    pthread_rwlock_unlock(&tenants->memory);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no key of this id");
    return STATUS_OK;
}

enum status tenants_key_list(struct tenants *tenants, struct slice tenant_id, struct slice after,
                             struct tenant_key *out, size_t capacity, size_t *count, bool *has_more)
{
    *count = 0;
    *has_more = false;
    pthread_rwlock_rdlock(&tenants->memory);
    struct tenant_record *owner = tenant_directory_find(tenants, tenant_id);
    bool has_owner = owner != NULL || tenant_id.length == 0;
    struct tenant_key_list *list = owner != NULL ? &owner->keys : &tenants->admin;
    struct tenant_key_record *record = has_owner ? list->first : NULL;
    bool is_known = true;
    if (after.length > 0) {
        record = tenant_directory_find_key(tenants, tenant_id, after);
        is_known = record != NULL;
        record = is_known ? record->next : NULL;
    }
    for (; record != NULL && *count < capacity; record = record->next)
        tenant_directory_read_key(record, &out[(*count)++]);
    *has_more = record != NULL;
    pthread_rwlock_unlock(&tenants->memory);
    if (!has_owner)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    if (!is_known)
        FAIL_PARAM(STATUS_INVALID, "after", "there is no key of this id to begin after");
    return STATUS_OK;
}

/* --- for auth --- */

/* Returns the state of a tenant; NULL means an admin key, which has none. */
static enum tenant_match match_tenant(const struct tenant_record *owner)
{
    if (owner != NULL && owner->tenant.state == TENANT_ARCHIVED)
        return TENANT_MATCH_ARCHIVED;
    if (owner != NULL && owner->tenant.state == TENANT_SUSPENDED)
        return TENANT_MATCH_SUSPENDED;
    return TENANT_MATCH_OPEN;
}

static enum tenant_match match_standing(const struct tenant_key_record *record, int64_t now_s)
{
    const struct tenant_key *key = &record->row.key;
    if (key->revoked_at_s != 0)
        return TENANT_MATCH_REVOKED;
    if (!tenant_directory_key_is_open(key, now_s))
        return TENANT_MATCH_EXPIRED;
    return match_tenant(record->tenant);
}

/* Fills a principal's owner; `owner` NULL means an admin key. */
static void match_principal(const struct tenants *tenants, const struct tenant_record *owner,
                            struct principal *out)
{
    /* leaves out the list of visible domains, which is long */
    memset(out, 0, offsetof(struct principal, visible));
    out->is_admin = owner == NULL;
    if (owner == NULL)
        return;
    memcpy(out->tenant_id, owner->tenant.id, LIMIT_ID_BYTES);
    tenants->limits->tenant_class(owner, out);
    memcpy(out->tenant_hash, owner->name, sizeof out->tenant_hash);
    tenant_view_fill(owner, out);
}

static void match_principal_of_key(const struct tenants *tenants,
                                   const struct tenant_key_record *record, struct principal *out)
{
    match_principal(tenants, record->tenant, out);
    out->scopes = record->row.key.scopes;
    memcpy(out->key_id, record->row.key.id, LIMIT_ID_BYTES);
    memcpy(out->key_hash, record->name, sizeof out->key_hash);
}

/* Notes a use: at most one store of the time in a second for each key, and once in LIMIT_USED_S an
 * entry in the list. The time is stored first, so that a flush that takes the key off the list
 * right afterwards sees it. */
static void match_note_use(struct tenants *tenants, struct tenant_key_record *record, int64_t now_s)
{
    if (atomic_load_explicit(&record->used_at_s, memory_order_relaxed) == now_s)
        return;
    atomic_store(&record->used_at_s, now_s);
    if (atomic_exchange(&record->is_used, true))
        return;
    record->used_next = atomic_load(&tenants->used);
    while (!atomic_compare_exchange_weak(&tenants->used, &record->used_next, record))
        ;
}

enum tenant_match tenants_key_match(struct tenants *tenants, const char *key_id,
                                    const uint8_t hash[AUTH_CRYPTO_BYTES], struct principal *out)
{
    static const uint8_t nobody[AUTH_CRYPTO_BYTES];
    int64_t now_s = tenant_directory_now_s(tenants);
    pthread_rwlock_rdlock(&tenants->memory);
    struct tenant_key_record *record = auth_index_get(&tenants->keys_by_id, slice_of(key_id));
    bool is_equal =
        auth_crypto_equals(record != NULL ? record->row.hash : nobody, hash, AUTH_CRYPTO_BYTES);
    enum tenant_match match = TENANT_MATCH_WRONG;
    if (record != NULL && is_equal) {
        match = match_standing(record, now_s);
        match_principal_of_key(tenants, record, out);
    }
    if (match == TENANT_MATCH_OPEN)
        match_note_use(tenants, record, now_s);
    pthread_rwlock_unlock(&tenants->memory);
    return match;
}

enum tenant_match tenants_key_standing(struct tenants *tenants, const char *key_id,
                                       struct principal *out)
{
    int64_t now_s = tenant_directory_now_s(tenants);
    pthread_rwlock_rdlock(&tenants->memory);
    struct tenant_key_record *record = auth_index_get(&tenants->keys_by_id, slice_of(key_id));
    enum tenant_match match = TENANT_MATCH_WRONG;
    if (record != NULL) {
        match = match_standing(record, now_s);
        match_principal_of_key(tenants, record, out);
    }
    pthread_rwlock_unlock(&tenants->memory);
    return match;
}

enum tenant_match tenants_match_tenant(struct tenants *tenants, const char *tenant_id,
                                       struct principal *out)
{
    enum tenant_match match = TENANT_MATCH_WRONG;
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_record *record = tenant_directory_find(tenants, slice_of(tenant_id));
    if (record != NULL) {
        match = match_tenant(record);
        match_principal(tenants, record, out);
    }
    pthread_rwlock_unlock(&tenants->memory);
    return match;
}

enum status tenants_find_hash(struct tenants *tenants, const uint8_t tenant_hash[16],
                              char tenant_id[LIMIT_ID_BYTES])
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_record *record = tenants->first;
    while (record != NULL && memcmp(record->name, tenant_hash, 16) != 0)
        record = record->next;
    if (record != NULL)
        memcpy(tenant_id, record->tenant.id, LIMIT_ID_BYTES);
    pthread_rwlock_unlock(&tenants->memory);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this name");
    return STATUS_OK;
}

enum status tenants_find_account(struct tenants *tenants, const uint8_t tenant_hash[16],
                                 const uint8_t key_hash[16], char tenant_id[LIMIT_ID_BYTES],
                                 char key_id[LIMIT_ID_BYTES])
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_key_record *record = tenant_directory_find_name(tenants, key_hash);
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

size_t tenants_admin_key_count(struct tenants *tenants, uint32_t scopes, int64_t until_s)
{
    size_t count = 0;
    int64_t now_s = tenant_directory_now_s(tenants);
    pthread_rwlock_rdlock(&tenants->memory);
    for (const struct tenant_key_record *record = tenants->admin.first; record != NULL;
         record = record->next) {
        const struct tenant_key *key = &record->row.key;
        bool lasts = key->expires_at_s == 0 || key->expires_at_s >= until_s;
        count +=
            lasts && tenant_directory_key_is_open(key, now_s) && (key->scopes & scopes) == scopes;
    }
    pthread_rwlock_unlock(&tenants->memory);
    return count;
}

/* --- audit --- */

static enum status add_no_rows(struct sqlite3 *connection, const void *context)
{
    (void)connection;
    (void)context;
    return STATUS_OK;
}

enum status tenants_audit_add(struct tenants *tenants, const struct tenant_change *change,
                              const char *type, struct slice subject, struct slice detail)
{
    struct tenant_change_plan plan;
    char id[LIMIT_ID_BYTES];
    tenant_change_copy(id, sizeof id, subject);
    tenant_change_plan_init(&plan, change, type, id);
    buffer_append_slice(&plan.detail, detail);
    plan.rows = add_no_rows;
    pthread_mutex_lock(&tenants->change);
    enum status status = tenant_change_commit(tenants, &plan);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

enum status tenants_audit_last(struct tenants *tenants, int64_t *out)
{
    struct sqlite3 *connection;
    TRY(store_begin(tenants->store, &connection));
    enum status status = tenant_rows_last_audit(connection, out);
    enum status ended = store_end(tenants->store, false);
    return status != STATUS_OK ? status : ended;
}

enum status tenants_audit_list(struct tenants *tenants, const struct audit_filter *filter,
                               int64_t after, struct audit_row *out, size_t capacity, size_t *count,
                               bool *has_more)
{
    struct sqlite3 *connection;
    size_t more = 0;
    struct audit_row next;
    *count = 0;
    *has_more = false;
    TRY(store_begin(tenants->store, &connection));
    enum status status = tenant_rows_load_audit(connection, filter, after, out, capacity, count);
    if (status == STATUS_OK && *count == capacity)
        status = tenant_rows_load_audit(
            connection, filter, capacity > 0 ? out[capacity - 1].id : after, &next, 1, &more);
    *has_more = more > 0;
    enum status ended = store_end(tenants->store, false);
    return status != STATUS_OK ? status : ended;
}
