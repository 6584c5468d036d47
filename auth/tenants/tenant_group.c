#include "auth/tenants/tenant_group.h"

#include <sqlite3.h>
#include <stdio.h>

#include "auth/credential/api_key.h"
#include "auth/tenants/tenant.h"
#include "auth/tenants/tenant_change.h"
#include "auth/tenants/tenant_group_load.h"
#include "auth/tenants/tenant_prompt_load.h"
#include "config/base/mem.h"

struct tenant_group_record {
    struct tenant_group group; /* except its count of prompts */
    char *metadata;            /* JSON */
    uint8_t domain[16];        /* HMAC(domain secret, "members:" id) */
    struct tenant_group_record *next;
};

/* --- records; the caller holds `change` or `memory` --- */

static struct tenant_group_record *record_find(const struct tenants *tenants, struct slice group)
{
    struct tenant_group_record *record = auth_index_get(&tenants->groups_by_id, group);
    return record != NULL ? record : auth_index_get(&tenants->groups_by_name, group);
}

/* Copies a group, with its count of prompts. */
static void record_read(const struct tenants *tenants, const struct tenant_group_record *record,
                        struct tenant_group *out)
{
    *out = record->group;
    out->prompts = tenant_prompt_count_group(tenants, out->name);
}

static enum status record_make(const struct tenants *tenants, const struct tenant_group *group,
                               struct slice metadata, struct tenant_group_record **out)
{
    struct tenant_group_record *record = mem_zalloc(1, sizeof *record);
    enum status status = STATUS_OK;
    *out = record;
    if (record != NULL)
        record->metadata = mem_strndup(metadata.bytes, metadata.length);
    if (record == NULL || record->metadata == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for a group");
    record->group = *group;
    TRY_OUT(tenant_records_name(tenants, "members:", group->id, record->domain));
    return STATUS_OK;
out:
    tenant_group_free(record);
    *out = NULL;
    return status;
}

void tenant_group_free(struct tenant_group_record *record)
{
    if (record == NULL)
        return;
    mem_free(record->metadata);
    mem_free(record);
}

void tenant_group_add(struct tenants *tenants, struct tenant_group_record *record)
{
    *(tenants->groups_last != NULL ? &tenants->groups_last->next : &tenants->groups) = record;
    tenants->groups_last = record;
    auth_index_put(&tenants->groups_by_id, slice_of(record->group.id), record);
    auth_index_put(&tenants->groups_by_name, slice_of(record->group.name), record);
}

bool tenant_group_domain(const struct tenants *tenants, const struct tenant_group_record *group,
                         const char *name, uint8_t out[16])
{
    if (group == NULL)
        group = auth_index_get(&tenants->groups_by_name, slice_of(name));
    if (group != NULL)
        memcpy(out, group->domain, sizeof group->domain);
    return group != NULL;
}

void tenant_group_count(struct tenants *tenants, const struct tenant *tenant, int step)
{
    struct tenant_group_record *record =
        auth_index_get(&tenants->groups_by_name, slice_of(tenant->group));
    if (record != NULL && tenant->state != TENANT_ARCHIVED)
        record->group.tenants += (uint32_t)step;
}

static enum status group_not_found(void)
{
    FAIL(STATUS_NOT_FOUND, "There is no group of this id or name.");
}

/* --- rows --- */

enum status tenant_group_insert(struct sqlite3 *connection,
                                const struct tenant_group_record *record)
{
    const struct tenant_rows_parameter parameters[] = {
        TENANT_ROWS_TEXT(record->group.id), TENANT_ROWS_TEXT(record->group.name),
        TENANT_ROWS_TEXT(record->metadata), TENANT_ROWS_NUMBER(record->group.created_at_s),
        TENANT_ROWS_NUMBER(record->group.revision)};
    return tenant_rows_change(connection,
                              "insert into tenant_groups (id, name, metadata, created_at_s, "
                              "revision) values (?, ?, ?, ?, ?)",
                              parameters, 5);
}

static enum status rows_insert(struct sqlite3 *connection, const void *context)
{
    return tenant_group_insert(connection, context);
}

static enum status rows_update(struct sqlite3 *connection, const void *context)
{
    const struct tenant_group_record *record = context;
    const struct tenant_rows_parameter parameters[] = {TENANT_ROWS_TEXT(record->metadata),
                                                       TENANT_ROWS_NUMBER(record->group.revision),
                                                       TENANT_ROWS_TEXT(record->group.id)};
    return tenant_rows_change(connection,
                              "update tenant_groups set metadata = ?, revision = ? where id = ?",
                              parameters, 3);
}

static enum status rows_delete(struct sqlite3 *connection, const void *context)
{
    const struct tenant_group_record *record = context;
    const struct tenant_rows_parameter parameters[] = {TENANT_ROWS_TEXT(record->group.id)};
    return tenant_rows_change(connection, "delete from tenant_groups where id = ?", parameters, 1);
}

static enum status commit(struct tenants *tenants, const struct tenant_change *change,
                          const char *type, const struct tenant_group_record *record,
                          enum status (*rows)(struct sqlite3 *, const void *))
{
    struct tenant_change_plan plan;
    tenant_change_plan_init(&plan, change, type, record->group.id);
    buffer_printf(&plan.detail, "{\"revision\":%lld,\"name\":", (long long)record->group.revision);
    buffer_append_json_string(&plan.detail, slice_of(record->group.name));
    buffer_append_char(&plan.detail, '}');
    plan.rows = rows;
    plan.context = record;
    return tenant_change_commit(tenants, &plan);
}

/* --- changes --- */

static enum status make(struct tenants *tenants, struct slice name, struct slice metadata,
                        struct tenant_group_record **out)
{
    char random[21];
    struct tenant_group group = {.created_at_s = tenant_directory_now_s(tenants), .revision = 1};
    if (tenants->groups_by_id.count >= LIMIT_GROUPS)
        FAIL(STATUS_CONFLICT, "There are %d groups, which is the limit.", LIMIT_GROUPS);
    TRY(tenant_directory_reserve_in(tenants, &tenants->groups_by_id));
    TRY(tenant_directory_reserve_in(tenants, &tenants->groups_by_name));
    api_key_random(random, sizeof random - 1);
    snprintf(group.id, sizeof group.id, "grp_%s", random);
    tenant_change_copy(group.name, sizeof group.name, name);
    return record_make(tenants, &group, metadata, out);
}

static bool is_taken(const struct tenants *tenants, struct slice name)
{
    return auth_index_get(&tenants->groups_by_name, name) != NULL;
}

enum status tenant_group_prepare(struct tenants *tenants, struct slice name,
                                 struct tenant_group_record **out)
{
    *out = NULL;
    if (name.length == 0 || is_taken(tenants, name))
        return STATUS_OK;
    return make(tenants, name, SLICE("{}"), out);
}

static enum status create_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice name, struct slice metadata, struct tenant_group *out)
{
    struct tenant_group_record *record = NULL;
    if (is_taken(tenants, name))
        FAIL_PARAM(STATUS_EXISTS, "name", "There is a group of this name already.");
    TRY(make(tenants, name, metadata, &record));
    *out = record->group;
    enum status status = commit(tenants, change, "group.created", record, rows_insert);
    if (status != STATUS_OK || change->is_dry_run) {
        tenant_group_free(record);
        return status;
    }
    pthread_rwlock_wrlock(&tenants->memory);
    tenant_group_add(tenants, record);
    pthread_rwlock_unlock(&tenants->memory);
    return STATUS_OK;
}

enum status tenant_group_create(struct tenants *tenants, const struct tenant_change *change,
                                struct slice name, struct slice metadata, struct tenant_group *out)
{
    TRY(tenant_change_check_name("name", name));
    if (metadata.bytes == NULL)
        metadata = SLICE("{}");
    if (metadata.length >= LIMIT_METADATA_BYTES)
        FAIL_PARAM(STATUS_LIMIT, "metadata", "metadata is longer than %d bytes",
                   LIMIT_METADATA_BYTES);
    pthread_mutex_lock(&tenants->change);
    enum status status = create_locked(tenants, change, name, metadata, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

static enum status update_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice group, struct slice metadata,
                                 struct tenant_group *out)
{
    struct tenant_group_record *record = record_find(tenants, group);
    if (record == NULL)
        return group_not_found();
    record_read(tenants, record, out);
    TRY(tenant_change_check_revision(change, out->revision));
    if (metadata.bytes == NULL || slice_is(metadata, record->metadata))
        return STATUS_OK;
    struct tenant_group_record *next = NULL;
    TRY(record_make(tenants, &record->group, metadata, &next));
    next->group.revision++;
    out->revision++;
    enum status status = commit(tenants, change, "group.updated", next, rows_update);
    if (status == STATUS_OK && !change->is_dry_run) {
        char *old = record->metadata;
        pthread_rwlock_wrlock(&tenants->memory);
        record->metadata = next->metadata;
        record->group.revision = next->group.revision;
        pthread_rwlock_unlock(&tenants->memory);
        next->metadata = old;
    }
    tenant_group_free(next);
    return status;
}

enum status tenant_group_update(struct tenants *tenants, const struct tenant_change *change,
                                struct slice group, struct slice metadata, struct tenant_group *out)
{
    if (metadata.length >= LIMIT_METADATA_BYTES)
        FAIL_PARAM(STATUS_LIMIT, "metadata", "metadata is longer than %d bytes",
                   LIMIT_METADATA_BYTES);
    pthread_mutex_lock(&tenants->change);
    enum status status = update_locked(tenants, change, group, metadata, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* Makes the indexes without the group. */
static enum status delete_from(const struct tenants *tenants,
                               const struct tenant_group_record *record, struct auth_index *by_id,
                               struct auth_index *by_name)
{
    TRY(auth_index_reserve(by_id, tenants->groups_by_id.count));
    TRY(auth_index_reserve(by_name, tenants->groups_by_name.count));
    for (struct tenant_group_record *at = tenants->groups; at != NULL; at = at->next) {
        if (at == record)
            continue;
        auth_index_put(by_id, slice_of(at->group.id), at);
        auth_index_put(by_name, slice_of(at->group.name), at);
    }
    return STATUS_OK;
}

static void delete_record(struct tenants *tenants, struct tenant_group_record *record,
                          struct auth_index *by_id, struct auth_index *by_name)
{
    struct tenant_group_record *before = NULL;
    for (struct tenant_group_record *at = tenants->groups; at != record; at = at->next)
        before = at;
    pthread_rwlock_wrlock(&tenants->memory);
    *(before != NULL ? &before->next : &tenants->groups) = record->next;
    if (tenants->groups_last == record)
        tenants->groups_last = before;
    auth_index_exchange(&tenants->groups_by_id, by_id);
    auth_index_exchange(&tenants->groups_by_name, by_name);
    pthread_rwlock_unlock(&tenants->memory);
    tenant_group_free(record);
}

static enum status delete_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice group, struct tenant_group *out)
{
    struct auth_index by_id = {0};
    struct auth_index by_name = {0};
    struct tenant_group_record *record = record_find(tenants, group);
    if (record == NULL)
        return group_not_found();
    record_read(tenants, record, out);
    TRY(tenant_change_check_revision(change, out->revision));
    if (out->tenants > 0 || out->prompts > 0)
        FAIL(STATUS_CONFLICT, "The group has %u tenants and %u published prompts.", out->tenants,
             out->prompts);
    enum status status = delete_from(tenants, record, &by_id, &by_name);
    if (status == STATUS_OK)
        status = commit(tenants, change, "group.deleted", record, rows_delete);
    if (status == STATUS_OK && !change->is_dry_run)
        delete_record(tenants, record, &by_id, &by_name);
    auth_index_deinit(&by_id); /* after a deletion these are the old indexes */
    auth_index_deinit(&by_name);
    return status;
}

enum status tenant_group_delete(struct tenants *tenants, const struct tenant_change *change,
                                struct slice group, struct tenant_group *out)
{
    pthread_mutex_lock(&tenants->change);
    enum status status = delete_locked(tenants, change, group, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- looking --- */

bool tenants_has_group(struct tenants *tenants, struct slice group)
{
    pthread_rwlock_rdlock(&tenants->memory);
    bool is_found = is_taken(tenants, group);
    pthread_rwlock_unlock(&tenants->memory);
    return is_found;
}

enum status tenant_group_get(struct tenants *tenants, struct slice group, struct tenant_group *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_group_record *record = record_find(tenants, group);
    if (record != NULL)
        record_read(tenants, record, out);
    pthread_rwlock_unlock(&tenants->memory);
    return record != NULL ? STATUS_OK : group_not_found();
}

enum status tenant_group_list(struct tenants *tenants, struct slice after, struct tenant_group *out,
                              size_t capacity, size_t *count, bool *has_more)
{
    *count = 0;
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_group_record *record = tenants->groups;
    bool is_known = true;
    if (after.length > 0) {
        record = record_find(tenants, after);
        is_known = record != NULL;
        record = is_known ? record->next : NULL;
    }
    for (; record != NULL && *count < capacity; record = record->next)
        record_read(tenants, record, &out[(*count)++]);
    *has_more = record != NULL;
    pthread_rwlock_unlock(&tenants->memory);
    if (!is_known)
        FAIL_PARAM(STATUS_INVALID, "after", "There is no group of this id.");
    return STATUS_OK;
}

void tenant_group_metadata(struct tenants *tenants, struct slice group, struct buffer *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_group_record *record = record_find(tenants, group);
    buffer_append_text(out, record != NULL ? record->metadata : "{}");
    pthread_rwlock_unlock(&tenants->memory);
}

void tenant_group_members(struct tenants *tenants, struct slice name, size_t most,
                          struct buffer *out)
{
    size_t count = 0;
    buffer_append_char(out, '[');
    pthread_rwlock_rdlock(&tenants->memory);
    for (const struct tenant_record *at = tenants->first; at != NULL && count < most;
         at = at->next) {
        if (at->tenant.state != TENANT_ARCHIVED && slice_is(name, at->tenant.group))
            buffer_printf(out, "%s\"%s\"", count++ > 0 ? "," : "", at->tenant.id);
    }
    pthread_rwlock_unlock(&tenants->memory);
    buffer_append_char(out, ']');
}

/* --- start and end --- */

static enum status load_row(void *context, sqlite3_stmt *row)
{
    struct tenants *tenants = context;
    struct tenant_group group = {.created_at_s = sqlite3_column_int64(row, 3),
                                 .revision = sqlite3_column_int64(row, 4)};
    bool fits = true;
    tenant_rows_text(row, 0, group.id, sizeof group.id, &fits);
    tenant_rows_text(row, 1, group.name, sizeof group.name, &fits);
    struct slice metadata = {(const char *)sqlite3_column_text(row, 2),
                             (size_t)sqlite3_column_bytes(row, 2)};
    if (metadata.bytes == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a row of the table tenant_groups");
    if (!fits || group.revision < 1 || metadata.length >= LIMIT_METADATA_BYTES)
        FAIL(STATUS_CORRUPT, "a row of the table tenant_groups is out of its bounds");
    struct tenant_group_record *record = NULL;
    TRY(tenant_directory_reserve_in(tenants, &tenants->groups_by_id));
    TRY(tenant_directory_reserve_in(tenants, &tenants->groups_by_name));
    TRY(record_make(tenants, &group, metadata, &record));
    tenant_group_add(tenants, record);
    return STATUS_OK;
}

enum status tenant_group_load(struct tenants *tenants, struct sqlite3 *connection)
{
    return tenant_rows_each(connection,
                            "select id, name, metadata, created_at_s, revision from tenant_groups "
                            "order by number",
                            NULL, 0, load_row, tenants);
}

void tenant_group_free_all(struct tenants *tenants)
{
    while (tenants->groups != NULL) {
        struct tenant_group_record *next = tenants->groups->next;
        tenant_group_free(tenants->groups);
        tenants->groups = next;
    }
    auth_index_deinit(&tenants->groups_by_id);
    auth_index_deinit(&tenants->groups_by_name);
}
