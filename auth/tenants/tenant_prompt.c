#include "auth/tenants/tenant_prompt.h"

#include <stdio.h>
#include <stdlib.h>

#include "auth/credential/api_key.h"
#include "auth/tenants/tenant.h"
#include "auth/tenants/tenant_change.h"
#include "auth/tenants/tenant_prompt_load.h"
#include "auth/tenants/tenant_prompt_rows.h"
#include "auth/tenants/tenant_view.h"
#include "config/base/mem.h"

/* for the names in an audit row, of the granted and of the revoked each */
enum { DETAIL_NAMES_BYTES = 200 };

struct tenant_prompt_record {
    struct tenant_prompt prompt;
    char *content;
    struct tenant_prompt_grant *grants; /* tenants before groups, each sorted, without duplicates */
    size_t grant_count;
    struct tenant_prompt_record *next;
};

bool tenant_prompt_is_expired(const struct tenant_prompt *prompt, int64_t now_s)
{
    return prompt->pin_until_s != 0 && prompt->pin_until_s <= now_s;
}

static enum status prompt_domain(const struct tenants *tenants, struct tenant_prompt *prompt)
{
    char message[64 + LIMIT_ID_BYTES];
    uint8_t mac[AUTH_CRYPTO_BYTES];
    snprintf(message, sizeof message, "prompt:%s:%lld", prompt->id, (long long)prompt->version);
    TRY(auth_crypto_hmac(tenants->domain, slice_of(message), mac));
    memcpy(prompt->domain, mac, sizeof prompt->domain);
    return STATUS_OK;
}

/* --- records; the caller holds `change` or `memory` --- */

static struct tenant_prompt_record *record_find(const struct tenants *tenants, struct slice id)
{
    struct tenant_prompt_record *record = tenants->prompts;
    while (record != NULL && !slice_is(id, record->prompt.id))
        record = record->next;
    return record;
}

static size_t record_count(const struct tenants *tenants)
{
    size_t count = 0;
    for (const struct tenant_prompt_record *at = tenants->prompts; at != NULL; at = at->next)
        count++;
    return count;
}

static void record_free(struct tenant_prompt_record *record)
{
    if (record == NULL)
        return;
    mem_free(record->content);
    mem_free(record->grants);
    mem_free(record);
}

static struct tenant_prompt_record *record_make(const struct tenant_prompt *prompt,
                                                struct slice content,
                                                struct tenant_prompt_grant *grants, size_t count)
{
    struct tenant_prompt_record *record = mem_zalloc(1, sizeof *record);
    if (record != NULL)
        record->content = mem_strndup(content.bytes, content.length);
    if (record == NULL || record->content == NULL) {
        mem_free(record);
        return NULL;
    }
    record->prompt = *prompt;
    record->grants = grants;
    record->grant_count = count;
    return record;
}

static void record_append(struct tenants *tenants, struct tenant_prompt_record *record)
{
    struct tenant_prompt_record **end = &tenants->prompts;
    while (*end != NULL)
        end = &(*end)->next;
    *end = record;
}

/* --- grants --- */

static bool grant_is_tenant(const struct tenant_prompt_grant *grant)
{
    return grant->tenant_id[0] != '\0';
}

static int grant_compare(const void *a, const void *b)
{
    const struct tenant_prompt_grant *left = a;
    const struct tenant_prompt_grant *right = b;
    if (grant_is_tenant(left) != grant_is_tenant(right))
        return grant_is_tenant(left) ? -1 : 1;
    int order = strcmp(left->tenant_id, right->tenant_id);
    return order != 0 ? order : strcmp(left->group, right->group);
}

static bool grant_is_given(const struct tenant_prompt_fields *fields, bool is_tenant)
{
    return (fields->given & (is_tenant ? TENANT_PROMPT_TENANTS : TENANT_PROMPT_GROUPS)) != 0;
}

/* Makes the list of grants after a change: tenants, or groups, or both from `fields` if they are
 * given, and otherwise from `old` (NULL: none). The caller frees the array. */
static enum status grants_merge(const struct tenant_prompt_fields *fields,
                                const struct tenant_prompt_record *old,
                                struct tenant_prompt_grant **out, size_t *count)
{
    size_t most = fields->grant_count + (old != NULL ? old->grant_count : 0);
    struct tenant_prompt_grant *all = mem_zalloc(most + 1, sizeof *all);
    size_t filled = 0;
    *out = NULL;
    *count = 0;
    if (all == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a prompt's grants");
    for (size_t i = 0; i < fields->grant_count; i++)
        all[filled++] = fields->grants[i];
    for (size_t i = 0; old != NULL && i < old->grant_count; i++) {
        if (!grant_is_given(fields, grant_is_tenant(&old->grants[i])))
            all[filled++] = old->grants[i];
    }
    qsort(all, filled, sizeof *all, grant_compare);
    for (size_t i = 0; i < filled; i++) {
        if (*count == 0 || grant_compare(&all[*count - 1], &all[i]) != 0)
            all[(*count)++] = all[i];
    }
    if (*count > LIMIT_PROMPT_GRANTS) {
        mem_free(all);
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "tenants",
                   "%zu tenants and groups are more than the %d that a prompt may have; give "
                   "tenants a group.",
                   *count, LIMIT_PROMPT_GRANTS);
    }
    *out = all;
    return STATUS_OK;
}

static void grants_count(const struct tenant_prompt_grant *grants, size_t count,
                         struct tenant_prompt *prompt)
{
    prompt->tenants = 0;
    for (size_t i = 0; i < count; i++)
        prompt->tenants += grant_is_tenant(&grants[i]);
    prompt->groups = (uint32_t)count - prompt->tenants;
}

/* Checks only the grants that are given. So an old grant to a tenant that is now archived does not
 * block a change. */
static enum status grants_check(struct tenants *tenants, const struct tenant_prompt_fields *fields)
{
    size_t index[2] = {0, 0};
    for (size_t i = 0; i < fields->grant_count; i++) {
        const struct tenant_prompt_grant *grant = &fields->grants[i];
        bool is_tenant = grant_is_tenant(grant);
        char where[48];
        snprintf(where, sizeof where, "%s[%zu]", is_tenant ? "tenants" : "groups",
                 index[is_tenant]++);
        if (!is_tenant && !tenants_has_group(tenants, slice_of(grant->group)))
            FAIL_PARAM(STATUS_NOT_FOUND, where, "There is no group %s.", grant->group);
        if (!is_tenant)
            continue;
        const struct tenant_record *record =
            tenant_directory_find(tenants, slice_of(grant->tenant_id));
        if (record == NULL)
            FAIL_PARAM(STATUS_NOT_FOUND, where, "There is no tenant %s.", grant->tenant_id);
        if (record->tenant.state == TENANT_ARCHIVED)
            FAIL_PARAM(STATUS_CONFLICT, where, "The tenant %s is archived.", grant->tenant_id);
    }
    return STATUS_OK;
}

uint32_t tenant_prompt_count_group(const struct tenants *tenants, const char *group)
{
    uint32_t count = 0;
    struct tenant_prompt_grant wanted = {0};
    snprintf(wanted.group, sizeof wanted.group, "%s", group);
    for (const struct tenant_prompt_record *at = tenants->prompts; at != NULL; at = at->next)
        count +=
            bsearch(&wanted, at->grants, at->grant_count, sizeof wanted, grant_compare) != NULL;
    return count;
}

/* --- what tenants see --- */

static size_t view_append(struct tenant_view_grant *rows, size_t count,
                          const struct tenant_prompt *prompt,
                          const struct tenant_prompt_grant *grants, size_t grant_count,
                          int64_t now_s)
{
    for (size_t i = 0; i < grant_count && !tenant_prompt_is_expired(prompt, now_s); i++) {
        struct tenant_view_grant *row = &rows[count++];
        memcpy(row->domain, prompt->domain, sizeof row->domain);
        memcpy(row->tenant_id, grants[i].tenant_id, sizeof row->tenant_id);
        memcpy(row->group, grants[i].group, sizeof row->group);
    }
    return count;
}

/* Plans every tenant's view for the case that `prompt` with these grants replaces `old`. With
 * `prompt` NULL, `old` is deleted. With `old` NULL, `prompt` is new. */
static enum status view_plan(struct tenants *tenants, const struct tenant_prompt_record *old,
                             const struct tenant_prompt *prompt,
                             const struct tenant_prompt_grant *grants, size_t grant_count,
                             struct tenant_view_plan **out)
{
    int64_t now_s = tenant_directory_now_s(tenants);
    size_t most = grant_count + 1;
    size_t count = 0;
    for (const struct tenant_prompt_record *at = tenants->prompts; at != NULL; at = at->next)
        most += at->grant_count;
    struct tenant_view_grant *rows = mem_zalloc(most, sizeof *rows);
    if (rows == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a prompt's grants");
    for (const struct tenant_prompt_record *at = tenants->prompts; at != NULL; at = at->next) {
        if (at != old)
            count = view_append(rows, count, &at->prompt, at->grants, at->grant_count, now_s);
        else if (prompt != NULL)
            count = view_append(rows, count, prompt, grants, grant_count, now_s);
    }
    if (old == NULL && prompt != NULL)
        count = view_append(rows, count, prompt, grants, grant_count, now_s);
    enum status status = tenant_view_plan(tenants, rows, count, out);
    mem_free(rows);
    if (status == STATUS_LIMIT) { /* the other grants are the cause, not this call's size */
        const struct error_note note = *status_note();
        FAIL_PARAM(STATUS_CONFLICT, "tenants", "%s", note.message);
    }
    return status;
}

/* --- audit --- */

/* Writes the names of the grants in `a` that `b` lacks, as far as there is room, and otherwise
 * their number too. */
static void detail_difference(struct buffer *detail, const char *member,
                              const struct tenant_prompt_grant *a, size_t a_count,
                              const struct tenant_prompt_grant *b, size_t b_count)
{
    size_t start = detail->length;
    size_t found = 0;
    size_t told = 0;
    for (size_t i = 0; i < a_count; i++) {
        if (b_count > 0 && bsearch(&a[i], b, b_count, sizeof *b, grant_compare) != NULL)
            continue;
        const char *name = grant_is_tenant(&a[i]) ? a[i].tenant_id : a[i].group;
        if (found++ == 0)
            buffer_printf(detail, ",\"%s\":[", member);
        if (found != told + 1 || detail->length - start + 2 * strlen(name) > DETAIL_NAMES_BYTES)
            continue;
        if (told++ > 0)
            buffer_append_char(detail, ',');
        buffer_append_json_string(detail, slice_of(name));
    }
    if (found > 0)
        buffer_append_char(detail, ']');
    if (found > told)
        buffer_printf(detail, ",\"%s_in_all\":%zu", member, found);
}

/* --- one change --- */

/* A prompt as it will be after the change. */
struct edit {
    const struct tenant_prompt *prompt;
    struct slice content; /* of a new prompt */
    const struct tenant_prompt_grant *grants;
    size_t grant_count;
};

static enum status edit_insert(struct sqlite3 *connection, const void *context)
{
    const struct edit *edit = context;
    TRY(tenant_prompt_rows_insert(connection, edit->prompt, edit->content));
    return tenant_prompt_rows_grant(connection, edit->prompt->id, edit->grants, edit->grant_count);
}

static enum status edit_update(struct sqlite3 *connection, const void *context)
{
    const struct edit *edit = context;
    TRY(tenant_prompt_rows_update(connection, edit->prompt));
    return tenant_prompt_rows_grant(connection, edit->prompt->id, edit->grants, edit->grant_count);
}

static enum status edit_delete(struct sqlite3 *connection, const void *context)
{
    const struct edit *edit = context;
    return tenant_prompt_rows_delete(connection, edit->prompt->id);
}

/* Commits the change, then puts `view` into use, or frees it on failure. `old` is NULL for a new
 * prompt. */
static enum status edit_commit(struct tenants *tenants, const struct tenant_change *change,
                               const struct edit *edit, const struct tenant_prompt_record *old,
                               const char *type, struct tenant_view_plan *view)
{
    struct tenant_change_plan plan;
    const struct tenant_prompt *prompt = edit->prompt;
    bool is_deleted = edit->grants == NULL;
    tenant_change_plan_init(&plan, change, type, prompt->id);
    buffer_printf(&plan.detail, "{\"revision\":%lld,\"version\":%lld,\"pin_until\":%lld",
                  (long long)prompt->revision, (long long)prompt->version,
                  (long long)prompt->pin_until_s);
    if (!is_deleted) {
        const struct tenant_prompt_grant *had = old != NULL ? old->grants : NULL;
        size_t had_count = old != NULL ? old->grant_count : 0;
        detail_difference(&plan.detail, "granted", edit->grants, edit->grant_count, had, had_count);
        detail_difference(&plan.detail, "revoked", had, had_count, edit->grants, edit->grant_count);
    }
    buffer_append_char(&plan.detail, '}');
    plan.rows = is_deleted ? edit_delete : old == NULL ? edit_insert : edit_update;
    plan.context = edit;
    enum status status = tenant_change_commit(tenants, &plan);
    if (status == STATUS_OK && !change->is_dry_run)
        tenant_view_commit(tenants, view);
    else
        tenant_view_forget(view);
    if (status == STATUS_EXISTS)
        FAIL_PARAM(STATUS_EXISTS, "name", "There is a published prompt of this name already.");
    return status;
}

static enum status check_fields(const struct tenants *tenants,
                                const struct tenant_prompt_fields *fields)
{
    int64_t now_s = tenant_directory_now_s(tenants);
    if ((fields->given & TENANT_PROMPT_NAME) != 0)
        TRY(tenant_change_check_name("name", fields->name));
    if ((fields->given & TENANT_PROMPT_PIN_UNTIL) == 0 || fields->pin_until_s == 0)
        return STATUS_OK;
    if (fields->pin_until_s <= now_s || fields->pin_until_s > LIMIT_TIME_S)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "pin_until",
                   "pin_until must be a time to come (it is %lld now), or null.", (long long)now_s);
    return STATUS_OK;
}

/* --- create --- */

/* Checks a new prompt, and makes its grants, which the caller frees, and the view that includes
 * it. */
static enum status create_check(struct tenants *tenants, const struct tenant_prompt_fields *fields,
                                struct tenant_prompt *out, struct tenant_prompt_grant **grants,
                                size_t *count, struct tenant_view_plan **view)
{
    *grants = NULL;
    if (record_count(tenants) >= LIMIT_PROMPTS)
        FAIL(STATUS_CONFLICT, "%d prompts are published, which is the limit.", LIMIT_PROMPTS);
    for (const struct tenant_prompt_record *at = tenants->prompts; at != NULL; at = at->next) {
        if (slice_is(fields->name, at->prompt.name))
            FAIL_PARAM(STATUS_EXISTS, "name", "There is a published prompt of this name already.");
    }
    TRY(grants_check(tenants, fields));
    TRY(grants_merge(fields, NULL, grants, count));
    grants_count(*grants, *count, out);
    return view_plan(tenants, NULL, out, *grants, *count, view);
}

enum status tenant_prompt_prepare(struct tenants *tenants,
                                  const struct tenant_prompt_fields *fields,
                                  struct tenant_prompt *out)
{
    char random[21];
    struct tenant_prompt_grant *grants = NULL;
    struct tenant_view_plan *view = NULL;
    size_t count = 0;
    if ((fields->given & TENANT_PROMPT_NAME) == 0)
        FAIL_PARAM(STATUS_INVALID, "name", "name is missing.");
    TRY(check_fields(tenants, fields));
    api_key_random(random, sizeof random - 1);
    *out = (struct tenant_prompt){.version = 1,
                                  .pin_until_s = fields->pin_until_s,
                                  .created_at_s = tenant_directory_now_s(tenants),
                                  .revision = 1};
    snprintf(out->id, sizeof out->id, "spr_%s", random);
    tenant_change_copy(out->name, sizeof out->name, fields->name);
    TRY(prompt_domain(tenants, out));
    pthread_mutex_lock(&tenants->change);
    enum status status = create_check(tenants, fields, out, &grants, &count, &view);
    if (status == STATUS_OK)
        tenant_view_forget(view);
    pthread_mutex_unlock(&tenants->change);
    mem_free(grants);
    return status;
}

static enum status create_locked(struct tenants *tenants, const struct tenant_change *change,
                                 const struct tenant_prompt_fields *fields,
                                 struct tenant_prompt *out)
{
    struct tenant_view_plan *view = NULL;
    struct edit edit = {.prompt = out, .content = fields->content};
    struct tenant_prompt_grant *grants = NULL;
    enum status status = create_check(tenants, fields, out, &grants, &edit.grant_count, &view);
    if (status != STATUS_OK) {
        mem_free(grants);
        return status;
    }
    edit.grants = grants;
    struct tenant_prompt_record *record =
        record_make(out, fields->content, grants, edit.grant_count);
    if (record == NULL) {
        tenant_view_forget(view);
        mem_free(grants);
        FAIL(STATUS_NO_MEMORY, "no memory for a prompt");
    }
    status = edit_commit(tenants, change, &edit, NULL, "prompt.published", view);
    if (status != STATUS_OK || change->is_dry_run) {
        record_free(record);
        return status;
    }
    pthread_rwlock_wrlock(&tenants->memory);
    record_append(tenants, record);
    pthread_rwlock_unlock(&tenants->memory);
    return STATUS_OK;
}

enum status tenant_prompt_create(struct tenants *tenants, const struct tenant_change *change,
                                 const struct tenant_prompt_fields *fields,
                                 struct tenant_prompt *out)
{
    ASSERT(fields->content.length > 0);
    pthread_mutex_lock(&tenants->change);
    enum status status = create_locked(tenants, change, fields, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- update --- */

static enum status update_find(const struct tenants *tenants, const struct tenant_change *change,
                               struct slice id, struct tenant_prompt_record **record,
                               struct tenant_prompt *out)
{
    *record = record_find(tenants, id);
    if (*record == NULL)
        FAIL(STATUS_NOT_FOUND, "There is no published prompt of this id.");
    *out = (*record)->prompt;
    return tenant_change_check_revision(change, out->revision);
}

static bool update_is_same(const struct tenant_prompt_record *record,
                           const struct tenant_prompt *out,
                           const struct tenant_prompt_grant *grants, size_t count)
{
    if (strcmp(record->prompt.name, out->name) != 0 ||
        record->prompt.pin_until_s != out->pin_until_s || record->grant_count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (grant_compare(&record->grants[i], &grants[i]) != 0)
            return false;
    }
    return true;
}

/* Applies the given fields to `out`. A prompt that had expired and is published again gets a new
 * version. */
static enum status update_apply(const struct tenants *tenants,
                                const struct tenant_prompt_fields *fields,
                                struct tenant_prompt *out)
{
    int64_t now_s = tenant_directory_now_s(tenants);
    bool was_expired = tenant_prompt_is_expired(out, now_s);
    if ((fields->given & TENANT_PROMPT_NAME) != 0)
        tenant_change_copy(out->name, sizeof out->name, fields->name);
    if ((fields->given & TENANT_PROMPT_PIN_UNTIL) != 0)
        out->pin_until_s = fields->pin_until_s;
    if (!was_expired || tenant_prompt_is_expired(out, now_s))
        return STATUS_OK;
    out->version++;
    return prompt_domain(tenants, out);
}

/* Commits the change. On success it exchanges `*grants` for the old grants. */
static enum status update_record(struct tenants *tenants, const struct tenant_change *change,
                                 struct tenant_prompt_record *record,
                                 struct tenant_prompt_grant **grants, size_t count,
                                 struct tenant_prompt *out)
{
    struct tenant_view_plan *view = NULL;
    const struct edit edit = {.prompt = out, .grants = *grants, .grant_count = count};
    out->revision++;
    grants_count(*grants, count, out);
    TRY(view_plan(tenants, record, out, *grants, count, &view));
    TRY(edit_commit(tenants, change, &edit, record, "prompt.updated", view));
    if (change->is_dry_run)
        return STATUS_OK;
    struct tenant_prompt_grant *old = record->grants;
    pthread_rwlock_wrlock(&tenants->memory);
    record->prompt = *out;
    record->grants = *grants;
    record->grant_count = count;
    pthread_rwlock_unlock(&tenants->memory);
    *grants = old;
    return STATUS_OK;
}

static enum status update_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, const struct tenant_prompt_fields *fields,
                                 struct tenant_prompt *out)
{
    struct tenant_prompt_record *record;
    struct tenant_prompt_grant *grants = NULL;
    size_t count = 0;
    TRY(update_find(tenants, change, id, &record, out));
    TRY(update_apply(tenants, fields, out));
    TRY(grants_check(tenants, fields));
    TRY(grants_merge(fields, record, &grants, &count));
    enum status status = STATUS_OK;
    if (!update_is_same(record, out, grants, count))
        status = update_record(tenants, change, record, &grants, count, out);
    mem_free(grants);
    return status;
}

enum status tenant_prompt_update(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, const struct tenant_prompt_fields *fields,
                                 struct tenant_prompt *out)
{
    TRY(check_fields(tenants, fields));
    pthread_mutex_lock(&tenants->change);
    enum status status = update_locked(tenants, change, id, fields, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- delete --- */

static void delete_record(struct tenants *tenants, struct tenant_prompt_record *record)
{
    struct tenant_prompt_record **at = &tenants->prompts;
    pthread_rwlock_wrlock(&tenants->memory);
    while (*at != record)
        at = &(*at)->next;
    *at = record->next;
    pthread_rwlock_unlock(&tenants->memory);
    record_free(record);
}

static enum status delete_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, struct tenant_prompt *out)
{
    struct tenant_prompt_record *record;
    struct tenant_view_plan *view = NULL;
    TRY(update_find(tenants, change, id, &record, out));
    const struct edit edit = {.prompt = out};
    TRY(view_plan(tenants, record, NULL, NULL, 0, &view));
    TRY(edit_commit(tenants, change, &edit, record, "prompt.unpublished", view));
    if (!change->is_dry_run)
        delete_record(tenants, record);
    return STATUS_OK;
}

enum status tenant_prompt_delete(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice id, struct tenant_prompt *out)
{
    pthread_mutex_lock(&tenants->change);
    enum status status = delete_locked(tenants, change, id, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- looking --- */

enum status tenant_prompt_get(struct tenants *tenants, struct slice id, struct tenant_prompt *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_prompt_record *record = record_find(tenants, id);
    if (record != NULL)
        *out = record->prompt;
    pthread_rwlock_unlock(&tenants->memory);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "There is no published prompt of this id.");
    return STATUS_OK;
}

enum status tenant_prompt_list(struct tenants *tenants, struct slice after,
                               struct tenant_prompt *out, size_t capacity, size_t *count,
                               bool *has_more)
{
    *count = 0;
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_prompt_record *record = tenants->prompts;
    bool is_known = true;
    if (after.length > 0) {
        record = record_find(tenants, after);
        is_known = record != NULL;
        record = is_known ? record->next : NULL;
    }
    for (; record != NULL && *count < capacity; record = record->next)
        out[(*count)++] = record->prompt;
    *has_more = record != NULL;
    pthread_rwlock_unlock(&tenants->memory);
    if (!is_known)
        FAIL_PARAM(STATUS_INVALID, "after", "There is no published prompt of this id.");
    return STATUS_OK;
}

size_t tenant_prompt_grants(struct tenants *tenants, struct slice id,
                            struct tenant_prompt_grant out[LIMIT_PROMPT_GRANTS])
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_prompt_record *record = record_find(tenants, id);
    size_t count = record != NULL ? record->grant_count : 0;
    if (count > 0)
        memcpy(out, record->grants, count * sizeof *out);
    pthread_rwlock_unlock(&tenants->memory);
    return count;
}

void tenant_prompt_content(struct tenants *tenants, struct slice id, struct buffer *out)
{
    pthread_rwlock_rdlock(&tenants->memory);
    const struct tenant_prompt_record *record = record_find(tenants, id);
    if (record != NULL)
        buffer_append_text(out, record->content);
    pthread_rwlock_unlock(&tenants->memory);
}

/* --- start and end --- */

static enum status load_prompt(void *context, const struct tenant_prompt *prompt,
                               struct slice content)
{
    struct tenants *tenants = context;
    struct tenant_prompt own = *prompt;
    if (record_count(tenants) >= LIMIT_PROMPTS)
        FAIL(STATUS_LIMIT, "the database holds more than %d prompts", LIMIT_PROMPTS);
    TRY(prompt_domain(tenants, &own));
    struct tenant_prompt_record *record = record_make(&own, content, NULL, 0);
    if (record == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a prompt");
    record_append(tenants, record);
    return STATUS_OK;
}

static enum status load_grants(struct tenants *tenants, struct sqlite3 *connection,
                               struct tenant_prompt_grant *grants)
{
    for (struct tenant_prompt_record *at = tenants->prompts; at != NULL; at = at->next) {
        TRY(tenant_prompt_rows_load_grants(connection, at->prompt.id, grants, &at->grant_count));
        at->grants = mem_zalloc(at->grant_count + 1, sizeof *grants);
        if (at->grants == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for a prompt's grants");
        memcpy(at->grants, grants, at->grant_count * sizeof *grants);
        qsort(at->grants, at->grant_count, sizeof *grants, grant_compare);
        grants_count(at->grants, at->grant_count, &at->prompt);
    }
    return STATUS_OK;
}

enum status tenant_prompt_load(struct tenants *tenants, struct sqlite3 *connection)
{
    struct tenant_view_plan *view = NULL;
    struct tenant_prompt_grant *grants = mem_zalloc(LIMIT_PROMPT_GRANTS, sizeof *grants);
    if (grants == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the prompts' grants");
    enum status status = tenant_prompt_rows_load(connection, tenants, load_prompt);
    if (status == STATUS_OK)
        status = load_grants(tenants, connection, grants);
    mem_free(grants);
    TRY(status);
    TRY(view_plan(tenants, NULL, NULL, NULL, 0, &view));
    tenant_view_commit(tenants, view);
    return STATUS_OK;
}

void tenant_prompt_free_all(struct tenants *tenants)
{
    while (tenants->prompts != NULL) {
        struct tenant_prompt_record *next = tenants->prompts->next;
        record_free(tenants->prompts);
        tenants->prompts = next;
    }
}
