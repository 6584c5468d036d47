#include "auth/tenants/tenant_directory.h"

#include <stdio.h>

#include "auth/tenants/tenant_group_load.h"
#include "auth/tenants/tenant_view.h"
#include "config/base/mem.h"

int64_t tenant_directory_now_s(const struct tenants *tenants)
{
    return clock_wall_us(tenants->clock) / 1000000;
}

static struct slice find_name_slice(const uint8_t name[16])
{
    return (struct slice){(const char *)name, 16};
}

/* Computes the opaque names once, when a record is made. So a request costs only the one HMAC of
 * its credential. */
static enum status make_fill(const struct tenants *tenants, struct tenant_record *record,
                             const struct tenant_group_record *group, struct slice metadata)
{
    TRY(tenant_records_name(tenants, "tenant:", record->tenant.id, record->name));
    TRY(tenant_records_name(tenants, "domain:", record->tenant.id, record->domain));
    TRY(tenant_view_make(tenants, &record->tenant, record->domain, group, &record->view));
    if (metadata.length == 0)
        return STATUS_OK;
    record->metadata = mem_strndup(metadata.bytes, metadata.length);
    if (record->metadata == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a tenant");
    return STATUS_OK;
}

static enum status make_no_memory(const char *what)
{
    FAIL(STATUS_NO_MEMORY, "no memory for %s", what);
}

struct tenant_record *tenant_directory_make(const struct tenants *tenants,
                                            const struct tenant *tenant,
                                            const struct tenant_group_record *group,
                                            struct slice metadata)
{
    struct tenant_record *record = mem_zalloc(1, sizeof *record);
    if (record == NULL) {
        make_no_memory("a tenant");
        return NULL;
    }
    record->tenant = *tenant;
    if (make_fill(tenants, record, group, metadata) == STATUS_OK)
        return record;
    tenant_directory_free(record);
    return NULL;
}

struct tenant_key_record *tenant_directory_make_key(const struct tenants *tenants,
                                                    const struct tenant_rows_key *row,
                                                    struct tenant_record *owner)
{
    struct tenant_key_record *record = mem_zalloc(1, sizeof *record);
    if (record == NULL) {
        make_no_memory("a key");
        return NULL;
    }
    record->row = *row;
    record->tenant = owner;
    atomic_init(&record->used_at_s, row->key.last_used_at_s);
    if (owner == NULL ||
        tenant_records_name(tenants, "key:", row->key.id, record->name) == STATUS_OK)
        return record;
    tenant_directory_free_key(record);
    return NULL;
}

void tenant_directory_free(struct tenant_record *record)
{
    if (record == NULL)
        return;
    tenant_view_free(&record->view);
    mem_free(record->metadata);
    mem_free(record->limits);
    mem_free(record);
}

void tenant_directory_free_key(struct tenant_key_record *record)
{
    mem_free(record);
}

/* `change` keeps other threads from changing the table while it is copied. Readers wait only for
 * the exchange, not for the copy of a million slots. */
enum status tenant_directory_reserve_in(struct tenants *tenants, struct auth_index *index)
{
    struct auth_index larger;
    TRY(auth_index_copy_larger(index, index->count + 1, &larger));
    pthread_rwlock_wrlock(&tenants->memory);
    auth_index_exchange(index, &larger);
    pthread_rwlock_unlock(&tenants->memory);
    auth_index_deinit(&larger);
    return STATUS_OK;
}

enum status tenant_directory_reserve(struct tenants *tenants)
{
    return tenant_directory_reserve_in(tenants, &tenants->by_id);
}

enum status tenant_directory_reserve_key(struct tenants *tenants)
{
    TRY(tenant_directory_reserve_in(tenants, &tenants->keys_by_id));
    return tenant_directory_reserve_in(tenants, &tenants->keys_by_name);
}

void tenant_directory_add(struct tenants *tenants, struct tenant_record *record)
{
    pthread_rwlock_wrlock(&tenants->memory);
    auth_index_put(&tenants->by_id, slice_of(record->tenant.id), record);
    if (tenants->last != NULL)
        tenants->last->next = record;
    else
        tenants->first = record;
    tenants->last = record;
    tenant_group_count(tenants, &record->tenant, 1);
    pthread_rwlock_unlock(&tenants->memory);
}

void tenant_directory_add_key(struct tenants *tenants, struct tenant_key_record *record)
{
    struct tenant_key_list *list = record->tenant != NULL ? &record->tenant->keys : &tenants->admin;
    pthread_rwlock_wrlock(&tenants->memory);
    auth_index_put(&tenants->keys_by_id, slice_of(record->row.key.id), record);
    if (record->tenant != NULL)
        auth_index_put(&tenants->keys_by_name, find_name_slice(record->name), record);
    if (list->last != NULL)
        list->last->next = record;
    else
        list->first = record;
    list->last = record;
    pthread_rwlock_unlock(&tenants->memory);
}

struct tenant_record *tenant_directory_find(struct tenants *tenants, struct slice id)
{
    return auth_index_get(&tenants->by_id, id);
}

struct tenant_key_record *tenant_directory_find_key(struct tenants *tenants, struct slice tenant_id,
                                                    struct slice key_id)
{
    struct tenant_key_record *record = auth_index_get(&tenants->keys_by_id, key_id);
    return record != NULL && slice_is(tenant_id, record->row.key.tenant_id) ? record : NULL;
}

struct tenant_key_record *tenant_directory_find_name(struct tenants *tenants,
                                                     const uint8_t key_name[16])
{
    return auth_index_get(&tenants->keys_by_name, find_name_slice(key_name));
}

void tenant_directory_read_key(const struct tenant_key_record *record, struct tenant_key *out)
{
    *out = record->row.key;
    out->last_used_at_s = atomic_load(&record->used_at_s);
}

bool tenant_directory_key_is_open(const struct tenant_key *key, int64_t now_s)
{
    return key->revoked_at_s == 0 && (key->expires_at_s == 0 || now_s < key->expires_at_s);
}

static void deinit_keys(struct tenant_key_list *list)
{
    struct tenant_key_record *next;
    for (struct tenant_key_record *record = list->first; record != NULL; record = next) {
        next = record->next;
        tenant_directory_free_key(record);
    }
}

void tenant_directory_deinit(struct tenants *tenants)
{
    struct tenant_record *next;
    for (struct tenant_record *record = tenants->first; record != NULL; record = next) {
        next = record->next;
        deinit_keys(&record->keys);
        tenant_directory_free(record);
    }
    deinit_keys(&tenants->admin);
    mem_free(tenants->grants);
    auth_index_deinit(&tenants->by_id);
    auth_index_deinit(&tenants->keys_by_id);
    auth_index_deinit(&tenants->keys_by_name);
}
