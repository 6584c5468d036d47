#include <stdio.h>

#include "auth/credential/api_key.h"
#include "auth/tenants/tenant.h"
#include "auth/tenants/tenant_change.h"
#include "auth/tenants/tenant_group_load.h"
#include "auth/tenants/tenant_view.h"
#include "config/base/mem.h"

enum { WEIGHT_DEFAULT = 100, CACHE_SHARE_DEFAULT = 100 };

static const char *const state_words[] = {"active", "suspended", "archived"};

static enum status check_fields(const struct tenant_fields *fields)
{
    if ((fields->given & TENANT_NAME) != 0)
        TRY(tenant_change_check_name("name", fields->name));
    if ((fields->given & TENANT_WEIGHT) != 0 &&
        (fields->weight < 1 || fields->weight > LIMIT_WEIGHT))
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "weight", "weight must be 1 to %d", LIMIT_WEIGHT);
    if ((fields->given & TENANT_STATE) != 0 && fields->state != TENANT_ACTIVE &&
        fields->state != TENANT_SUSPENDED)
        FAIL_PARAM(STATUS_INVALID, "state", "state must be active or suspended");
    if ((fields->given & TENANT_METADATA) != 0)
        ASSERT(fields->metadata.length >= 2);
    if ((fields->given & TENANT_METADATA) != 0 && fields->metadata.length >= LIMIT_METADATA_BYTES)
        FAIL_PARAM(STATUS_LIMIT, "metadata", "metadata is longer than %d bytes",
                   LIMIT_METADATA_BYTES);
    if ((fields->given & TENANT_GROUP) != 0 && fields->group.length > 0)
        TRY(tenant_change_check_name("group", fields->group));
    if ((fields->given & TENANT_CACHE_SHARE) != 0 &&
        (fields->cache_share < 1 || fields->cache_share > LIMIT_CACHE_SHARE))
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "cache_share", "cache_share must be 1 to %d",
                   LIMIT_CACHE_SHARE);
    if ((fields->given & TENANT_MODELS) != 0 && fields->models.length >= LIMIT_TENANT_MODELS_BYTES)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "models", "the names of models have more than %d bytes",
                   LIMIT_TENANT_MODELS_BYTES - 1);
    return STATUS_OK;
}

static void apply_fields(const struct tenant_fields *fields, struct tenant *tenant)
{
    if ((fields->given & TENANT_NAME) != 0)
        tenant_change_copy(tenant->name, sizeof tenant->name, fields->name);
    if ((fields->given & TENANT_WEIGHT) != 0)
        tenant->weight = fields->weight;
    if ((fields->given & TENANT_STATE) != 0)
        tenant->state = fields->state;
    if ((fields->given & TENANT_GROUP) != 0)
        tenant_change_copy(tenant->group, sizeof tenant->group, fields->group);
    if ((fields->given & TENANT_SHARE) != 0)
        tenant->share = fields->share;
    if ((fields->given & TENANT_CACHE_SHARE) != 0)
        tenant->cache_share = fields->cache_share;
    if ((fields->given & TENANT_DEFAULT_CLASS) != 0)
        tenant->default_class = fields->default_class;
    if ((fields->given & TENANT_BEST_CLASS) != 0)
        tenant->best_class = fields->best_class;
    if ((fields->given & TENANT_MODELS) != 0)
        tenant_change_copy(tenant->models, sizeof tenant->models, fields->models);
}

/* The error names the field that the change gives. */
static enum status check_classes(const struct tenant_fields *fields, const struct tenant *tenant)
{
    if (tenant->default_class < tenant->best_class)
        FAIL_PARAM(STATUS_INVALID,
                   (fields->given & TENANT_DEFAULT_CLASS) != 0 ? "default_class" : "best_class",
                   "default_class %s is above best_class %s",
                   service_class_name(tenant->default_class),
                   service_class_name(tenant->best_class));
    return STATUS_OK;
}

/* The audit row has only the number of models, because names can be too long for it. */
static size_t count_models(const struct tenant *tenant)
{
    size_t count = 0;
    for (const char *at = tenant->models; *at != '\0'; at++)
        count += *at == '\n';
    return count;
}

/* A tenant as it will be, with its new metadata if they change. */
struct edit {
    const struct tenant *tenant;
    struct slice metadata;             /* bytes NULL: unchanged */
    struct tenant_group_record *group; /* its group if that is new; or NULL */
};

static enum status commit_group(struct sqlite3 *connection, const struct edit *edit)
{
    return edit->group != NULL ? tenant_group_insert(connection, edit->group) : STATUS_OK;
}

static enum status commit_insert(struct sqlite3 *connection, const void *context)
{
    const struct edit *edit = context;
    TRY(commit_group(connection, edit));
    return tenant_rows_insert(connection, edit->tenant, edit->metadata);
}

static enum status commit_update(struct sqlite3 *connection, const void *context)
{
    const struct edit *edit = context;
    TRY(commit_group(connection, edit));
    return tenant_rows_update(connection, edit->tenant, edit->metadata);
}

/* Commits the edit, then adds or frees its group. EXISTS can only mean the tenant's name. */
static enum status commit_edit(struct tenants *tenants, struct tenant_change_plan *plan)
{
    const struct edit *edit = plan->context;
    enum status status = tenant_change_commit(tenants, plan);
    if (status == STATUS_OK && !plan->change->is_dry_run && edit->group != NULL) {
        pthread_rwlock_wrlock(&tenants->memory);
        tenant_group_add(tenants, edit->group);
        pthread_rwlock_unlock(&tenants->memory);
    } else {
        tenant_group_free(edit->group);
    }
    if (status == STATUS_EXISTS)
        FAIL_PARAM(STATUS_EXISTS, "name", "there is a tenant of this name already");
    return status;
}

/* --- create --- */

static enum status create_locked(struct tenants *tenants, const struct tenant_change *change,
                                 const struct tenant_fields *fields, struct tenant *out)
{
    if (tenants->by_id.count >= LIMIT_TENANTS)
        FAIL(STATUS_CONFLICT, "there are %d tenants, which is the limit", LIMIT_TENANTS);
    char random[21];
    api_key_random(random, sizeof random - 1);
    *out = (struct tenant){.state = TENANT_ACTIVE,
                           .weight = WEIGHT_DEFAULT,
                           .created_at_s = tenant_directory_now_s(tenants),
                           .revision = 1,
                           .cache_share = CACHE_SHARE_DEFAULT,
                           .default_class = SERVICE_CLASS_STANDARD,
                           .best_class = SERVICE_CLASS_REALTIME};
    snprintf(out->id, sizeof out->id, "tnt_%s", random);
    apply_fields(fields, out);
    TRY(check_classes(fields, out));
    struct slice metadata = {0};
    if ((fields->given & TENANT_METADATA) != 0)
        metadata = fields->metadata;
    struct edit edit = {out, metadata.length > 0 ? metadata : SLICE("{}"), NULL};
    TRY(tenant_directory_reserve(tenants));
    TRY(tenant_group_prepare(tenants, slice_of(out->group), &edit.group));
    struct tenant_record *record = tenant_directory_make(tenants, out, edit.group, metadata);
    if (record == NULL) {
        tenant_group_free(edit.group);
        return status_note()->status;
    }
    struct tenant_change_plan plan;
    tenant_change_plan_init(&plan, change, "tenant.created", out->id);
    buffer_append_text(&plan.detail, "{\"name\":");
    buffer_append_json_string(&plan.detail, slice_of(out->name));
    buffer_printf(&plan.detail, ",\"weight\":%u,\"state\":\"%s\",\"group\":", out->weight,
                  state_words[out->state]);
    buffer_append_json_string(&plan.detail, slice_of(out->group));
    buffer_printf(&plan.detail,
                  ",\"share\":\"%s\",\"cache_share\":%u,\"default_class\":\"%s\","
                  "\"best_class\":\"%s\",\"models\":%zu}",
                  tenant_share_name(out->share), out->cache_share,
                  service_class_name(out->default_class), service_class_name(out->best_class),
                  count_models(out));
    plan.rows = commit_insert;
    plan.context = &edit;
    enum status status = commit_edit(tenants, &plan);
    if (status != STATUS_OK || change->is_dry_run)
        tenant_directory_free(record);
    else
        tenant_directory_add(tenants, record);
    return status;
}

enum status tenants_create(struct tenants *tenants, const struct tenant_change *change,
                           const struct tenant_fields *fields, struct tenant *out)
{
    if ((fields->given & TENANT_NAME) == 0)
        FAIL_PARAM(STATUS_INVALID, "name", "name is missing");
    TRY(check_fields(fields));
    pthread_mutex_lock(&tenants->change);
    enum status status = create_locked(tenants, change, fields, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- update --- */

static void update_detail(struct buffer *detail, const struct tenant *old, const struct tenant *new,
                          bool has_metadata)
{
    buffer_printf(detail, "{\"revision\":%lld", (long long)new->revision);
    if (strcmp(old->name, new->name) != 0) {
        buffer_append_text(detail, ",\"name\":");
        buffer_append_json_string(detail, slice_of(new->name));
    }
    if (old->weight != new->weight)
        buffer_printf(detail, ",\"weight\":%u", new->weight);
    if (old->state != new->state)
        buffer_printf(detail, ",\"state\":\"%s\"", state_words[new->state]);
    if (strcmp(old->group, new->group) != 0) {
        buffer_append_text(detail, ",\"group\":");
        buffer_append_json_string(detail, slice_of(new->group));
    }
    if (old->share != new->share)
        buffer_printf(detail, ",\"share\":\"%s\"", tenant_share_name(new->share));
    if (old->cache_share != new->cache_share)
        buffer_printf(detail, ",\"cache_share\":%u", new->cache_share);
    if (old->default_class != new->default_class)
        buffer_printf(detail, ",\"default_class\":\"%s\"", service_class_name(new->default_class));
    if (old->best_class != new->best_class)
        buffer_printf(detail, ",\"best_class\":\"%s\"", service_class_name(new->best_class));
    if (strcmp(old->models, new->models) != 0)
        buffer_printf(detail, ",\"models\":%zu", count_models(new));
    buffer_append_text(detail, has_metadata ? ",\"metadata\":true}" : "}");
}

static void update_swap(struct tenants *tenants, struct tenant_record *record,
                        const struct tenant *tenant, char **metadata, struct tenant_view *view)
{
    char *old_metadata = record->metadata;
    struct tenant_view old_view = record->view;
    pthread_rwlock_wrlock(&tenants->memory);
    tenant_group_count(tenants, &record->tenant, -1);
    record->tenant = *tenant;
    tenant_group_count(tenants, tenant, 1);
    record->view = *view;
    if (*metadata != NULL)
        record->metadata = *metadata;
    pthread_rwlock_unlock(&tenants->memory);
    if (*metadata != NULL)
        *metadata = old_metadata;
    *view = old_view;
}

/* Makes what a changed record needs beside its row: its group if that is new, its view, and a copy
 * of its metadata if they change. */
static enum status update_make(struct tenants *tenants, const struct tenant_record *record,
                               struct edit *edit, char **copy, struct tenant_view *view)
{
    const struct tenant *out = edit->tenant;
    enum status status = STATUS_OK;
    *copy = NULL;
    *view = (struct tenant_view){0};
    if (strcmp(record->tenant.group, out->group) != 0)
        TRY(tenant_group_prepare(tenants, slice_of(out->group), &edit->group));
    TRY_OUT(tenant_view_make(tenants, out, record->domain, edit->group, view));
    if (edit->metadata.bytes != NULL)
        *copy = mem_strndup(edit->metadata.bytes, edit->metadata.length);
    if (edit->metadata.bytes != NULL && *copy == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for a tenant");
    return STATUS_OK;
out:
    tenant_group_free(edit->group);
    tenant_view_free(view);
    return status;
}

/* Commits `out`, then stores it in the record. Nothing can fail after the commit. */
static enum status update_record(struct tenants *tenants, const struct tenant_change *change,
                                 struct tenant_record *record, const char *type,
                                 struct slice metadata, struct tenant *out)
{
    char *copy;
    struct tenant_view view;
    struct edit edit = {out, metadata, NULL};
    TRY(update_make(tenants, record, &edit, &copy, &view));
    out->revision++;
    struct tenant_change_plan plan;
    tenant_change_plan_init(&plan, change, type, out->id);
    update_detail(&plan.detail, &record->tenant, out, copy != NULL);
    plan.rows = commit_update;
    plan.context = &edit;
    enum status status = commit_edit(tenants, &plan);
    if (status == STATUS_OK && !change->is_dry_run)
        update_swap(tenants, record, out, &copy, &view);
    mem_free(copy);
    tenant_view_free(&view);
    return status;
}

/* Finds the record and checks the change's revision. Copies the present tenant to `out`. */
static enum status update_find(struct tenants *tenants, const struct tenant_change *change,
                               struct slice id, struct tenant_record **record, struct tenant *out)
{
    *record = tenant_directory_find(tenants, id);
    if (*record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    *out = (*record)->tenant;
    return tenant_change_check_revision(change, out->revision);
}

static bool update_is_same(const struct tenant *old, const struct tenant *new)
{
    return strcmp(old->name, new->name) == 0 && old->weight == new->weight &&
           old->state == new->state &&strcmp(old->group, new->group) == 0 &&
           old->share == new->share && old->cache_share == new->cache_share &&
           old->default_class == new->default_class &&
           old->best_class == new->best_class &&strcmp(old->models, new->models) == 0;
}

static enum status update_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, const struct tenant_fields *fields,
                                 struct tenant *out)
{
    struct tenant_record *record;
    struct slice metadata = {0};
    TRY(update_find(tenants, change, id, &record, out));
    if (out->state == TENANT_ARCHIVED)
        FAIL(STATUS_CONFLICT, "the tenant is archived, which is for ever");
    apply_fields(fields, out);
    TRY(check_classes(fields, out));
    const char *present = record->metadata != NULL ? record->metadata : "{}";
    if ((fields->given & TENANT_METADATA) != 0 && !slice_is(fields->metadata, present))
        metadata = fields->metadata;
    if (metadata.bytes == NULL && update_is_same(&record->tenant, out))
        return STATUS_OK;
    return update_record(tenants, change, record, "tenant.updated", metadata, out);
}

enum status tenants_update(struct tenants *tenants, const struct tenant_change *change,
                           struct slice id, const struct tenant_fields *fields, struct tenant *out)
{
    TRY(check_fields(fields));
    pthread_mutex_lock(&tenants->change);
    enum status status = update_locked(tenants, change, id, fields, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- archive --- */

static enum status archive_locked(struct tenants *tenants, const struct tenant_change *change,
                                  struct slice id, struct tenant *out)
{
    struct tenant_record *record;
    TRY(update_find(tenants, change, id, &record, out));
    if (out->state == TENANT_ARCHIVED)
        return STATUS_OK;
    out->state = TENANT_ARCHIVED;
    return update_record(tenants, change, record, "tenant.archived", (struct slice){0}, out);
}

enum status tenants_archive(struct tenants *tenants, const struct tenant_change *change,
                            struct slice id, struct tenant *out)
{
    pthread_mutex_lock(&tenants->change);
    enum status status = archive_locked(tenants, change, id, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}
