#include "auth/limits/quota_limits_key.h"

#include <stdio.h>

#include "auth/credential/principal.h"
#include "auth/limits/quota_limits.h"
#include "auth/limits/quota_limits_load.h"
#include "auth/limits/quota_limits_rows.h"
#include "auth/tenants/tenant_change.h"
#include "config/base/mem.h"

struct quota_key_record {
    struct quota_key_limits limits;
    char name[QUOTA_LIMITS_OWNER_BYTES]; /* its key in the index */
    struct quota_key_record *next;
};

/* The caller holds `change` or `memory`. */
static struct quota_key_record *key_find(const struct tenants *tenants, struct slice tenant_id,
                                         struct slice key_id)
{
    char name[QUOTA_LIMITS_OWNER_BYTES];
    size_t length = quota_limits_rows_owner(tenant_id, key_id, name);
    return length == 0 ? NULL
                       : auth_index_get(&tenants->limits_by_key, (struct slice){name, length});
}

static struct quota_key_record *key_make(const struct quota_key_limits *limits)
{
    struct quota_key_record *record = mem_zalloc(1, sizeof *record);
    if (record == NULL) {
        (void)status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL, "no memory for limits");
        return NULL;
    }
    record->limits = *limits;
    quota_limits_rows_owner(slice_of(limits->tenant_id), slice_of(limits->key_id), record->name);
    return record;
}

/* Makes room for one more record. The caller holds `change`. */
static enum status key_reserve(struct tenants *tenants)
{
    if (tenants->limits_by_key.count >= LIMIT_KEYS)
        FAIL(STATUS_CONFLICT, "%d keys have limits of their own, which is the limit.", LIMIT_KEYS);
    struct auth_index larger = {0};
    TRY(auth_index_copy_larger(&tenants->limits_by_key, tenants->limits_by_key.count + 1, &larger));
    if (larger.capacity != 0) {
        pthread_rwlock_wrlock(&tenants->memory);
        auth_index_exchange(&tenants->limits_by_key, &larger);
        pthread_rwlock_unlock(&tenants->memory);
        auth_index_deinit(&larger);
    }
    return STATUS_OK;
}

/* Adds a record. The caller holds `memory` for writing, or alone has the directory. */
static void key_add(struct tenants *tenants, struct quota_key_record *record)
{
    record->next = tenants->key_limits;
    tenants->key_limits = record;
    auth_index_put(&tenants->limits_by_key, slice_of(record->name), record);
    atomic_store_explicit(&tenants->has_key_limits, true, memory_order_release);
}

/* --- changes --- */

static enum status rows_put(struct sqlite3 *connection, const void *context)
{
    return quota_limits_rows_put_key(connection, context);
}

static enum status put_commit(struct tenants *tenants, const struct tenant_change *change,
                              const struct quota_key_limits *limits)
{
    struct tenant_change_plan commit;
    tenant_change_plan_init(&commit, change, "key.limits_updated", limits->key_id);
    buffer_printf(&commit.detail, "{\"tenant\":\"%s\",\"revision\":%lld", limits->tenant_id,
                  (long long)limits->revision);
    quota_limits_append(&limits->set, true, &commit.detail);
    quota_limits_append_classes(&limits->set, true, &commit.detail);
    buffer_append_char(&commit.detail, '}');
    commit.rows = rows_put;
    commit.context = limits;
    return tenant_change_commit(tenants, &commit);
}

/* Finds the key's present limits. Fails when the tenant may not be changed. */
static enum status put_find(struct tenants *tenants, struct slice tenant_id, struct slice key_id,
                            struct quota_key_record **record, struct quota_key_limits *out)
{
    const struct tenant_record *tenant = tenant_directory_find(tenants, tenant_id);
    if (tenant == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    if (tenant->tenant.state == TENANT_ARCHIVED)
        FAIL(STATUS_CONFLICT, "the tenant is archived");
    if (key_id.length == 0 || key_id.length >= sizeof out->key_id)
        FAIL(STATUS_NOT_FOUND, "there is no key of this id");
    *record = key_find(tenants, tenant_id, key_id);
    *out = (struct quota_key_limits){.set.cached_percent = -1};
    if (*record != NULL)
        *out = (*record)->limits;
    memcpy(out->tenant_id, tenant->tenant.id, sizeof out->tenant_id);
    tenant_change_copy(out->key_id, sizeof out->key_id, key_id);
    return STATUS_OK;
}

static enum status put_locked(struct tenants *tenants, const struct tenant_change *change,
                              struct slice tenant_id, struct slice key_id,
                              const struct quota_limits_set *set, struct quota_key_limits *out)
{
    struct quota_key_record *record = NULL;
    TRY(put_find(tenants, tenant_id, key_id, &record, out));
    TRY(tenant_change_check_revision(change, out->revision));
    if (quota_limits_is_same(set, &out->set))
        return STATUS_OK;
    out->set = *set;
    out->revision++;
    bool is_new = record == NULL;
    if (is_new) {
        TRY(key_reserve(tenants));
        record = key_make(out);
        if (record == NULL)
            return STATUS_NO_MEMORY;
    }
    enum status status = put_commit(tenants, change, out);
    if (status != STATUS_OK || change->is_dry_run) {
        if (is_new)
            mem_free(record);
        return status;
    }
    pthread_rwlock_wrlock(&tenants->memory);
    record->limits = *out;
    if (is_new)
        key_add(tenants, record);
    quota_limits_changed(tenants);
    return STATUS_OK;
}

enum status quota_limits_key_put(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice tenant_id, struct slice key_id,
                                 const struct quota_limits_set *set, struct quota_key_limits *out)
{
    TRY(quota_limits_check(set));
    pthread_mutex_lock(&tenants->change);
    enum status status = put_locked(tenants, change, tenant_id, key_id, set, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- rotations --- */

enum status quota_limits_key_follow(struct tenants *tenants, const struct tenant_key *old,
                                    const char *new_id, struct quota_key_record **out)
{
    const struct quota_key_record *record =
        key_find(tenants, slice_of(old->tenant_id), slice_of(old->id));
    *out = NULL;
    if (record == NULL || record->limits.revision == 0)
        return STATUS_OK;
    struct quota_key_limits limits = record->limits;
    snprintf(limits.key_id, sizeof limits.key_id, "%s", new_id);
    limits.revision = 1;
    TRY(key_reserve(tenants));
    *out = key_make(&limits);
    return *out == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

enum status quota_limits_key_follow_rows(struct sqlite3 *connection,
                                         const struct quota_key_record *record)
{
    return record == NULL ? STATUS_OK : quota_limits_rows_put_key(connection, &record->limits);
}

void quota_limits_key_follow_end(struct tenants *tenants, struct quota_key_record *record,
                                 bool is_done)
{
    if (record == NULL)
        return;
    if (!is_done) {
        mem_free(record);
        return;
    }
    pthread_rwlock_wrlock(&tenants->memory);
    key_add(tenants, record);
    quota_limits_changed(tenants);
}

/* --- looking --- */

enum status quota_limits_key_get(struct tenants *tenants, struct slice tenant_id,
                                 struct slice key_id, struct quota_key_limits *out)
{
    *out = (struct quota_key_limits){.set.cached_percent = -1};
    pthread_rwlock_rdlock(&tenants->memory);
    bool is_known = tenant_directory_find(tenants, tenant_id) != NULL &&
                    tenant_id.length < sizeof out->tenant_id && key_id.length < sizeof out->key_id;
    const struct quota_key_record *record = is_known ? key_find(tenants, tenant_id, key_id) : NULL;
    if (record != NULL)
        *out = record->limits;
    pthread_rwlock_unlock(&tenants->memory);
    if (!is_known)
        FAIL(STATUS_NOT_FOUND, "there is no key of this id");
    tenant_change_copy(out->tenant_id, sizeof out->tenant_id, tenant_id);
    tenant_change_copy(out->key_id, sizeof out->key_id, key_id);
    return STATUS_OK;
}

bool quota_limits_key_resolve(struct tenants *tenants, const char *tenant_id, const char *key_id,
                              struct quota_limits_set *out)
{
    if (!atomic_load_explicit(&tenants->has_key_limits, memory_order_acquire))
        return false;
    pthread_rwlock_rdlock(&tenants->memory);
    const struct quota_key_record *record =
        key_find(tenants, slice_of(tenant_id), slice_of(key_id));
    if (record != NULL)
        *out = record->limits.set;
    pthread_rwlock_unlock(&tenants->memory);
    return record != NULL;
}

void quota_limits_key_class(struct tenants *tenants, struct principal *principal)
{
    struct quota_limits_set set;
    if (!quota_limits_key_resolve(tenants, principal->tenant_id, principal->key_id, &set))
        return;
    if (set.default_class != 0)
        principal->default_class = (enum service_class)(set.default_class - 1);
    if (set.best_class > principal->best_class)
        principal->best_class = (enum service_class)(set.best_class - 1);
    if (principal->default_class < principal->best_class)
        principal->default_class = principal->best_class;
}

/* --- start and end --- */

struct quota_limits_set *quota_limits_key_owner(struct tenants *tenants, const char *owner)
{
    struct quota_key_record *record = auth_index_get(&tenants->limits_by_key, slice_of(owner));
    return record != NULL ? &record->limits.set : NULL;
}

enum status quota_limits_key_load(void *context, const struct quota_key_limits *limits)
{
    struct tenants *tenants = context;
    TRY(auth_index_reserve(&tenants->limits_by_key, tenants->limits_by_key.count + 1));
    struct quota_key_record *record = key_make(limits);
    if (record == NULL)
        return STATUS_NO_MEMORY;
    key_add(tenants, record);
    return STATUS_OK;
}

void quota_limits_key_free_all(struct tenants *tenants)
{
    while (tenants->key_limits != NULL) {
        struct quota_key_record *next = tenants->key_limits->next;
        mem_free(tenants->key_limits);
        tenants->key_limits = next;
    }
    auth_index_deinit(&tenants->limits_by_key);
}
