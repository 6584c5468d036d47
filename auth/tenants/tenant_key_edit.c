#include <stdio.h>

#include "auth/credential/api_key.h"
#include "auth/credential/auth_scope.h"
#include "auth/tenants/tenant.h"
#include "auth/tenants/tenant_auth.h"
#include "auth/tenants/tenant_change.h"
#include "auth/tenants/tenant_limits.h"

/* --- checks --- */

static enum status check_scopes(const struct tenant_change *change, bool is_admin, uint32_t scopes,
                                uint32_t had)
{
    uint32_t known = is_admin ? AUTH_SCOPES_ADMIN : AUTH_SCOPES_TENANT_ALL;
    if (scopes == 0)
        FAIL_PARAM(STATUS_INVALID, "scopes", "a key has at least one scope");
    if ((scopes & ~known) != 0)
        FAIL_PARAM(STATUS_INVALID, "scopes", "%s",
                   is_admin ? "an admin key has no scopes of tenants' keys"
                            : "a tenant's key has no admin scopes");
    if (is_admin && (scopes & ~(change->actor->scopes | had)) != 0)
        FAIL_PARAM(STATUS_FORBIDDEN, "scopes", "you cannot give scopes that you do not have");
    return STATUS_OK;
}

static enum status check_expires(int64_t expires_at_s, int64_t now_s)
{
    if (expires_at_s != 0 && (expires_at_s <= now_s || expires_at_s > LIMIT_TIME_S))
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "expires_at",
                   "expires_at must be in the future, in seconds since 1970");
    return STATUS_OK;
}

static enum status find_owner(struct tenants *tenants, struct slice tenant_id,
                              struct tenant_record **out)
{
    *out = NULL;
    if (tenant_id.length == 0)
        return STATUS_OK;
    *out = tenant_directory_find(tenants, tenant_id);
    if (*out == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no tenant of this id");
    return STATUS_OK;
}

static enum status check_owner(const struct tenant_record *owner)
{
    if (owner != NULL && owner->tenant.state == TENANT_ARCHIVED)
        FAIL(STATUS_CONFLICT, "the tenant is archived, which is for ever");
    return STATUS_OK;
}

/* Finds the record of a key and checks the change's revision. Copies the present key to `out`. */
static enum status find_key(struct tenants *tenants, const struct tenant_change *change,
                            struct slice tenant_id, struct slice key_id,
                            struct tenant_key_record **record, struct tenant_key *out)
{
    struct tenant_record *owner;
    TRY(find_owner(tenants, tenant_id, &owner));
    *record = tenant_directory_find_key(tenants, tenant_id, key_id);
    if (*record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no key of this id");
    tenant_directory_read_key(*record, out);
    return tenant_change_check_revision(change, out->revision);
}

/* Returns the scopes that an admin key loses by a change, or has for a shorter time. */
static uint32_t keeper_lost(const struct tenant_key *old, const struct tenant_key *new,
                            int64_t now_s)
{
    bool ends_sooner =
        new->expires_at_s != 0 && (old->expires_at_s == 0 || new->expires_at_s < old->expires_at_s);
    if (old->tenant_id[0] != '\0' || !tenant_directory_key_is_open(old, now_s))
        return 0;
    if (ends_sooner || !tenant_directory_key_is_open(new, now_s))
        return old->scopes;
    return old->scopes & ~new->scopes;
}

/* Nobody can give scopes that they lack, so some admin key must have each scope. Therefore the last
 * admin key with a scope neither loses it nor ends sooner. A key that ends before this one does not
 * count as a replacement. Certificates and tokens do not count either, because others decide how
 * long they are valid. */
static enum status check_keeper(struct tenants *tenants, const struct tenant_key *old,
                                const struct tenant_key *new)
{
    uint32_t lost = keeper_lost(old, new, tenant_directory_now_s(tenants));
    int64_t until_s = old->expires_at_s != 0 ? old->expires_at_s : INT64_MAX;
    for (uint32_t scope = 1; scope <= lost; scope <<= 1) {
        if ((lost & scope) == 0 || tenants_admin_key_count(tenants, scope, until_s) > 1)
            continue;
        FAIL(STATUS_CONFLICT,
             "this is the last key with %s that does not end sooner: make another one first",
             auth_scope_word(scope));
    }
    return STATUS_OK;
}

static void detail_key(struct buffer *detail, const struct tenant_key *key)
{
    buffer_append_text(detail, "{\"name\":");
    buffer_append_json_string(detail, slice_of(key->name));
    buffer_append_text(detail, ",\"tenant\":");
    buffer_append_json_string(detail, slice_of(key->tenant_id));
    buffer_append_text(detail, ",\"scopes\":");
    auth_scopes_append(key->scopes, detail);
    buffer_printf(detail, ",\"expires_at\":%lld,\"revision\":%lld}", (long long)key->expires_at_s,
                  (long long)key->revision);
}

/* --- making --- */

static enum status make_row(struct tenants *tenants, struct slice value, struct slice tenant_id,
                            struct tenant_rows_key *row)
{
    struct api_key read;
    struct tenant_key *key = &row->key;
    TRY(api_key_read(value, &read));
    ASSERT(read.is_admin == (tenant_id.length == 0));
    *row = (struct tenant_rows_key){0};
    tenant_change_copy(key->id, sizeof key->id, slice_of(read.id));
    tenant_change_copy(key->tenant_id, sizeof key->tenant_id, tenant_id);
    api_key_redact(value, key->redacted);
    key->created_at_s = tenant_directory_now_s(tenants);
    key->revision = 1;
    return auth_crypto_hmac(tenants->pepper, value, row->hash);
}

/* Commits a plan that adds the key, and frees the plan's buffer. */
static enum status make_commit(struct tenants *tenants, struct tenant_change_plan *plan,
                               const struct tenant_rows_key *row, struct tenant_record *owner)
{
    enum status status = STATUS_OK;
    struct tenant_key_record *record = tenant_directory_make_key(tenants, row, owner);
    if (record == NULL)
        status = status_note()->status;
    if (status == STATUS_OK)
        status = tenant_directory_reserve_key(tenants);
    if (status == STATUS_OK)
        status = tenant_change_commit(tenants, plan);
    else
        buffer_deinit(&plan->detail);
    if (status != STATUS_OK || plan->change->is_dry_run)
        tenant_directory_free_key(record);
    else
        tenant_directory_add_key(tenants, record);
    return status;
}

static enum status make_check_room(const struct tenants *tenants)
{
    if (tenants->keys_by_id.count >= LIMIT_KEYS)
        FAIL(STATUS_CONFLICT, "there are %d keys, which is the limit", LIMIT_KEYS);
    return STATUS_OK;
}

static enum status adopt_rows(struct sqlite3 *connection, const void *context)
{
    return tenant_rows_insert_key(connection, context);
}

static enum status adopt_locked(struct tenants *tenants, const struct tenant_change *change,
                                struct slice tenant_id, const struct tenant_key_fields *fields,
                                struct slice value, struct tenant_key *out)
{
    struct tenant_record *owner;
    struct tenant_rows_key row;
    struct tenant_change_plan plan;
    TRY(find_owner(tenants, tenant_id, &owner));
    TRY(check_owner(owner));
    TRY(check_expires(fields->expires_at_s, tenant_directory_now_s(tenants)));
    TRY(make_check_room(tenants));
    TRY(make_row(tenants, value, tenant_id, &row));
    tenant_change_copy(row.key.name, sizeof row.key.name, fields->name);
    row.key.scopes = fields->scopes;
    row.key.expires_at_s = fields->expires_at_s;
    *out = row.key;
    tenant_change_plan_init(&plan, change, "key.created", out->id);
    detail_key(&plan.detail, out);
    plan.rows = adopt_rows;
    plan.context = &row;
    return make_commit(tenants, &plan, &row, owner);
}

enum status tenants_key_adopt(struct tenants *tenants, const struct tenant_change *change,
                              struct slice tenant_id, const struct tenant_key_fields *given,
                              const char *value, struct tenant_key *out)
{
    bool is_admin = tenant_id.length == 0;
    struct tenant_key_fields fields = *given;
    if ((fields.given & TENANT_KEY_NAME) == 0)
        fields.name = SLICE("unnamed");
    if ((fields.given & TENANT_KEY_EXPIRES) == 0)
        fields.expires_at_s = 0;
    if ((fields.given & TENANT_KEY_SCOPES) == 0)
        fields.scopes = is_admin ? 0 : AUTH_SCOPES_TENANT;
    TRY(tenant_change_check_name("name", fields.name));
    TRY(check_scopes(change, is_admin, fields.scopes, 0));
    pthread_mutex_lock(&tenants->change);
    enum status status = adopt_locked(tenants, change, tenant_id, &fields, slice_of(value), out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

enum status tenants_key_create(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, const struct tenant_key_fields *fields,
                               struct tenant_key *out, char value[LIMIT_KEY_BYTES])
{
    api_key_make(tenant_id.length == 0, value);
    enum status status = tenants_key_adopt(tenants, change, tenant_id, fields, value, out);
    if (status != STATUS_OK || change->is_dry_run)
        auth_crypto_forget(value, LIMIT_KEY_BYTES);
    return status;
}

/* --- changing --- */

static enum status edit_rows(struct sqlite3 *connection, const void *context)
{
    return tenant_rows_update_key(connection, context);
}

/* Commits `out`, then stores it in the record. */
static enum status edit_record(struct tenants *tenants, const struct tenant_change *change,
                               struct tenant_key_record *record, const char *type,
                               struct tenant_key *out)
{
    struct tenant_change_plan plan;
    TRY(check_keeper(tenants, &record->row.key, out));
    out->revision++;
    tenant_change_plan_init(&plan, change, type, out->id);
    detail_key(&plan.detail, out);
    plan.rows = edit_rows;
    plan.context = out;
    TRY(tenant_change_commit(tenants, &plan));
    if (change->is_dry_run)
        return STATUS_OK;
    pthread_rwlock_wrlock(&tenants->memory);
    record->row.key = *out;
    pthread_rwlock_unlock(&tenants->memory);
    return STATUS_OK;
}

static enum status update_check_rotated(const struct tenant_key *key, int64_t expires_at_s)
{
    if (key->rotated_to[0] != '\0' && (expires_at_s == 0 || expires_at_s > key->expires_at_s))
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "expires_at",
                   "the key was rotated: it may only end earlier than it does");
    return STATUS_OK;
}

/* A later expiry gives the key's scopes to the holder of its value for longer, or again if it had
 * expired. So the actor must have those scopes. */
static enum status update_check_longer(const struct tenant_change *change,
                                       const struct tenant_key *key, int64_t expires_at_s)
{
    bool is_longer =
        key->expires_at_s != 0 && (expires_at_s == 0 || expires_at_s > key->expires_at_s);
    if (is_longer && key->tenant_id[0] == '\0' && (key->scopes & ~change->actor->scopes) != 0)
        FAIL_PARAM(STATUS_FORBIDDEN, "expires_at",
                   "you cannot make a key with scopes that you do not have live longer");
    return STATUS_OK;
}

static enum status update_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice tenant_id, struct slice key_id,
                                 const struct tenant_key_fields *fields, struct tenant_key *out)
{
    struct tenant_key_record *record;
    TRY(find_key(tenants, change, tenant_id, key_id, &record, out));
    TRY(check_owner(record->tenant));
    if (out->revoked_at_s != 0)
        FAIL(STATUS_CONFLICT, "the key is revoked, which is for ever");
    if ((fields->given & TENANT_KEY_NAME) != 0)
        tenant_change_copy(out->name, sizeof out->name, fields->name);
    if ((fields->given & TENANT_KEY_SCOPES) != 0) {
        TRY(check_scopes(change, record->tenant == NULL, fields->scopes, out->scopes));
        out->scopes = fields->scopes;
    }
    if ((fields->given & TENANT_KEY_EXPIRES) != 0 && fields->expires_at_s != out->expires_at_s) {
        TRY(check_expires(fields->expires_at_s, tenant_directory_now_s(tenants)));
        TRY(update_check_rotated(out, fields->expires_at_s));
        TRY(update_check_longer(change, out, fields->expires_at_s));
        out->expires_at_s = fields->expires_at_s;
    }
    const struct tenant_key *old = &record->row.key;
    if (strcmp(out->name, old->name) == 0 && out->scopes == old->scopes &&
        out->expires_at_s == old->expires_at_s)
        return STATUS_OK;
    return edit_record(tenants, change, record, "key.updated", out);
}

enum status tenants_key_update(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, struct slice key_id,
                               const struct tenant_key_fields *fields, struct tenant_key *out)
{
    if ((fields->given & TENANT_KEY_NAME) != 0)
        TRY(tenant_change_check_name("name", fields->name));
    pthread_mutex_lock(&tenants->change);
    enum status status = update_locked(tenants, change, tenant_id, key_id, fields, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

static enum status revoke_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice tenant_id, struct slice key_id,
                                 struct tenant_key *out)
{
    struct tenant_key_record *record;
    TRY(find_key(tenants, change, tenant_id, key_id, &record, out));
    if (out->revoked_at_s != 0)
        return STATUS_OK;
    out->revoked_at_s = tenant_directory_now_s(tenants);
    return edit_record(tenants, change, record, "key.revoked", out);
}

enum status tenants_key_revoke(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, struct slice key_id, struct tenant_key *out)
{
    pthread_mutex_lock(&tenants->change);
    enum status status = revoke_locked(tenants, change, tenant_id, key_id, out);
    pthread_mutex_unlock(&tenants->change);
    return status;
}

/* --- rotating --- */

struct rotation {
    const struct tenants *tenants;
    struct tenant_key old; /* the old key as it will be */
    struct tenant_rows_key row;
    struct quota_key_record *limits; /* of the new key; NULL: none */
};

static enum status rotate_rows(struct sqlite3 *connection, const void *context)
{
    const struct rotation *rotation = context;
    TRY(tenant_rows_insert_key(connection, &rotation->row));
    TRY(rotation->tenants->limits->key_follow_rows(connection, rotation->limits));
    return tenant_rows_update_key(connection, &rotation->old);
}

static enum status rotate_check(const struct tenant_change *change,
                                const struct tenant_key_record *record, int64_t now_s)
{
    const struct tenant_key *key = &record->row.key;
    TRY(check_owner(record->tenant));
    if (key->revoked_at_s != 0)
        FAIL(STATUS_CONFLICT, "the key is revoked, which is for ever");
    if (key->rotated_to[0] != '\0')
        FAIL(STATUS_CONFLICT, "the key was rotated already, to %s", key->rotated_to);
    if (!tenant_directory_key_is_open(key, now_s))
        FAIL(STATUS_CONFLICT, "the key has expired");
    /* The new key's value would give the actor scopes that it lacks. */
    if (record->tenant == NULL && (key->scopes & ~change->actor->scopes) != 0)
        FAIL(STATUS_FORBIDDEN, "you cannot rotate a key with scopes that you do not have");
    return STATUS_OK;
}

/* Computes when the old key ends. */
static enum status rotate_end(const struct tenant_key *old, int64_t overlap_s, int64_t now_s,
                              int64_t *out)
{
    int64_t left_s = old->expires_at_s != 0 ? old->expires_at_s - now_s : LIMIT_OVERLAP_S;
    if (overlap_s > LIMIT_OVERLAP_S)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "overlap_s", "overlap_s must be 0 to %d", LIMIT_OVERLAP_S);
    if (overlap_s > left_s)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "overlap_s",
                   "the key ends in %lld s, before the overlap would", (long long)left_s);
    if (overlap_s < 0)
        overlap_s = left_s < TENANT_OVERLAP_DEFAULT_S ? left_s : TENANT_OVERLAP_DEFAULT_S;
    *out = now_s + overlap_s;
    return STATUS_OK;
}

/* Returns when the new key ends. It lives as long as the old key was made to live, and never ends
 * before the old key would have. The second rule counts when the old key was made while the clock
 * was ahead. */
static int64_t rotate_life(const struct tenant_key *old, int64_t now_s)
{
    int64_t end_s = now_s + (old->expires_at_s - old->created_at_s);
    end_s = end_s > old->expires_at_s ? end_s : old->expires_at_s;
    return end_s < LIMIT_TIME_S ? end_s : LIMIT_TIME_S;
}

static enum status rotate_locked(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice tenant_id, struct slice key_id, int64_t overlap_s,
                                 struct tenant_key *out, struct slice value)
{
    int64_t now_s = tenant_directory_now_s(tenants);
    struct tenant_key_record *record;
    struct rotation rotation = {.tenants = tenants};
    struct tenant_key *new = &rotation.row.key;
    struct tenant_change_plan plan;
    TRY(find_key(tenants, change, tenant_id, key_id, &record, &rotation.old));
    TRY(rotate_check(change, record, now_s));
    TRY(make_check_room(tenants));
    TRY(make_row(tenants, value, tenant_id, &rotation.row));
    const struct tenant_key *old = &record->row.key;
    memcpy(new->name, old->name, sizeof new->name);
    new->scopes = old->scopes;
    if (old->expires_at_s != 0)
        new->expires_at_s = rotate_life(old, now_s);
    TRY(rotate_end(old, overlap_s, now_s, &rotation.old.expires_at_s));
    memcpy(rotation.old.rotated_to, new->id, sizeof rotation.old.rotated_to);
    rotation.old.revision++;
    *out = *new;
    tenant_change_plan_init(&plan, change, "key.rotated", old->id);
    buffer_printf(&plan.detail, "{\"tenant\":\"%s\",\"to\":\"%s\",\"expires_at\":%lld}",
                  old->tenant_id, new->id, (long long)rotation.old.expires_at_s);
    plan.rows = rotate_rows;
    plan.context = &rotation;
    enum status status = tenants->limits->key_follow(tenants, old, new->id, &rotation.limits);
    if (status == STATUS_OK)
        status = make_commit(tenants, &plan, &rotation.row, record->tenant);
    else
        buffer_deinit(&plan.detail);
    bool is_done = status == STATUS_OK && !change->is_dry_run;
    tenants->limits->key_follow_end(tenants, rotation.limits, is_done);
    if (!is_done)
        return status;
    pthread_rwlock_wrlock(&tenants->memory);
    record->row.key = rotation.old;
    pthread_rwlock_unlock(&tenants->memory);
    return STATUS_OK;
}

enum status tenants_key_rotate(struct tenants *tenants, const struct tenant_change *change,
                               struct slice tenant_id, struct slice key_id, int64_t overlap_s,
                               struct tenant_key *out, char value[LIMIT_KEY_BYTES])
{
    api_key_make(tenant_id.length == 0, value);
    pthread_mutex_lock(&tenants->change);
    enum status status =
        rotate_locked(tenants, change, tenant_id, key_id, overlap_s, out, slice_of(value));
    pthread_mutex_unlock(&tenants->change);
    if (status != STATUS_OK || change->is_dry_run)
        auth_crypto_forget(value, LIMIT_KEY_BYTES);
    return status;
}
