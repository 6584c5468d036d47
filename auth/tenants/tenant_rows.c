#include "auth/tenants/tenant_rows.h"

#include <sqlite3.h>
#include <stdio.h>

#include "config/store.h"

#define P_TEXT   TENANT_ROWS_TEXT
#define P_NUMBER TENANT_ROWS_NUMBER

enum status tenant_rows_prepare(sqlite3 *connection, const char *sql,
                                const struct tenant_rows_parameter *parameters, int count,
                                sqlite3_stmt **out)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(connection, sql, -1, &statement, NULL);
    for (int i = 0; i < count && code == SQLITE_OK; i++) {
        const struct tenant_rows_parameter *parameter = &parameters[i];
        if (parameter->is_null)
            code = sqlite3_bind_null(statement, i + 1);
        else if (parameter->bytes != NULL)
            code = sqlite3_bind_blob64(statement, i + 1, parameter->bytes, parameter->length,
                                       SQLITE_STATIC);
        else if (parameter->text != NULL)
            code = sqlite3_bind_text(statement, i + 1, parameter->text,
                                     parameter->length > 0 ? (int)parameter->length : -1,
                                     SQLITE_STATIC);
        else
            code = sqlite3_bind_int64(statement, i + 1, parameter->number);
    }
    if (code != SQLITE_OK) {
        sqlite3_finalize(statement);
        return store_status(code, "database");
    }
    *out = statement;
    return STATUS_OK;
}

enum status tenant_rows_each(sqlite3 *connection, const char *sql,
                             const struct tenant_rows_parameter *parameters, int count,
                             enum status (*read)(void *context, sqlite3_stmt *statement),
                             void *context)
{
    sqlite3_stmt *statement;
    TRY(tenant_rows_prepare(connection, sql, parameters, count, &statement));
    enum status status = STATUS_OK;
    int code = SQLITE_ROW;
    while (status == STATUS_OK && code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        status = code == SQLITE_ROW ? read(context, statement) : store_status(code, "database");
    }
    sqlite3_finalize(statement);
    return status;
}

enum status tenant_rows_change(sqlite3 *connection, const char *sql,
                               const struct tenant_rows_parameter *parameters, int count)
{
    sqlite3_stmt *statement;
    TRY(tenant_rows_prepare(connection, sql, parameters, count, &statement));
    int code = sqlite3_step(statement);
    sqlite3_finalize(statement);
    if (code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY)
        FAIL(STATUS_EXISTS, "a row of this name is there already");
    return store_status(code, "database");
}

/* A slice need not end with NUL, so its length is given. These slices are never empty. */
static struct tenant_rows_parameter insert_text(struct slice text)
{
    return (struct tenant_rows_parameter){.text = text.bytes, .length = text.length};
}

enum status tenant_rows_insert(sqlite3 *connection, const struct tenant *tenant,
                               struct slice metadata)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(tenant->id),
                                                       P_TEXT(tenant->name),
                                                       P_NUMBER((int64_t)tenant->state),
                                                       P_NUMBER(tenant->weight),
                                                       P_NUMBER(tenant->created_at_s),
                                                       P_NUMBER(tenant->revision),
                                                       insert_text(metadata),
                                                       P_TEXT(tenant->group),
                                                       P_NUMBER((int64_t)tenant->share),
                                                       P_NUMBER(tenant->cache_share),
                                                       P_NUMBER((int64_t)tenant->default_class),
                                                       P_NUMBER((int64_t)tenant->best_class),
                                                       P_TEXT(tenant->models)};
    return tenant_rows_change(
        connection,
        "insert into tenants (id, name, state, weight, created_at_s, revision, "
        "metadata, group_name, share, cache_share, default_class, best_class, models) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        parameters, 13);
}

enum status tenant_rows_insert_key(sqlite3 *connection, const struct tenant_rows_key *row)
{
    const struct tenant_key *key = &row->key;
    const struct tenant_rows_parameter parameters[] = {
        P_TEXT(key->id),
        {.text = key->tenant_id, .is_null = key->tenant_id[0] == '\0'},
        P_TEXT(key->name),
        P_TEXT(key->redacted),
        P_NUMBER(key->scopes),
        TENANT_ROWS_BYTES(row->hash, sizeof row->hash),
        P_NUMBER(key->created_at_s),
        P_NUMBER(key->expires_at_s),
        P_NUMBER(key->revoked_at_s),
        P_TEXT(key->rotated_to),
        P_NUMBER(key->revision)};
    return tenant_rows_change(connection,
                              "insert into keys (id, tenant_id, name, redacted, scopes, hash, "
                              "created_at_s, expires_at_s, revoked_at_s, rotated_to, revision) "
                              "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                              parameters, 11);
}

enum status tenant_rows_update(sqlite3 *connection, const struct tenant *tenant,
                               struct slice metadata)
{
    struct tenant_rows_parameter text = insert_text(metadata);
    text.is_null = metadata.bytes == NULL;
    const struct tenant_rows_parameter parameters[] = {P_TEXT(tenant->name),
                                                       P_NUMBER((int64_t)tenant->state),
                                                       P_NUMBER(tenant->weight),
                                                       P_NUMBER(tenant->revision),
                                                       text,
                                                       P_TEXT(tenant->group),
                                                       P_NUMBER((int64_t)tenant->share),
                                                       P_NUMBER(tenant->cache_share),
                                                       P_NUMBER((int64_t)tenant->default_class),
                                                       P_NUMBER((int64_t)tenant->best_class),
                                                       P_TEXT(tenant->models),
                                                       P_TEXT(tenant->id)};
    return tenant_rows_change(connection,
                              "update tenants set name = ?, state = ?, weight = ?, revision = ?, "
                              "metadata = coalesce(?, metadata), group_name = ?, share = ?, "
                              "cache_share = ?, default_class = ?, best_class = ?, models = ? "
                              "where id = ?",
                              parameters, 12);
}

enum status tenant_rows_update_key(sqlite3 *connection, const struct tenant_key *key)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(key->name),
                                                       P_NUMBER(key->scopes),
                                                       P_NUMBER(key->expires_at_s),
                                                       P_NUMBER(key->revoked_at_s),
                                                       P_TEXT(key->rotated_to),
                                                       P_NUMBER(key->revision),
                                                       P_TEXT(key->id)};
    return tenant_rows_change(
        connection,
        "update keys set name = ?, scopes = ?, expires_at_s = ?, revoked_at_s = ?, "
        "rotated_to = ?, revision = ? where id = ?",
        parameters, 7);
}

enum status tenant_rows_update_used(sqlite3 *connection, const char *key_id, int64_t last_used_at_s)
{
    const struct tenant_rows_parameter parameters[] = {P_NUMBER(last_used_at_s), P_TEXT(key_id)};
    return tenant_rows_change(connection, "update keys set last_used_at_s = ? where id = ?",
                              parameters, 2);
}

enum status tenant_rows_audit(sqlite3 *connection, const struct audit_row *row)
{
    const struct tenant_rows_parameter parameters[] = {
        P_NUMBER(row->at_us), P_TEXT(row->type),         P_TEXT(row->actor_key_id),
        P_TEXT(row->peer),    P_TEXT(row->request_id),   P_TEXT(row->subject),
        P_TEXT(row->detail),  P_TEXT(row->actor_subject)};
    return tenant_rows_change(
        connection,
        "insert into audit (at_us, type, actor_key_id, peer, request_id, subject, "
        "detail, actor_subject) values (?, ?, ?, ?, ?, ?, ?, ?)",
        parameters, 8);
}

/* --- reading; a row that does not fit its struct marks `fits` false --- */

void tenant_rows_text(sqlite3_stmt *statement, int column, char *out, size_t capacity, bool *fits)
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    size_t length = (size_t)sqlite3_column_bytes(statement, column);
    out[0] = '\0';
    if (text == NULL) /* null, or no memory, which sqlite3_step reports */
        return;
    if (length >= capacity || strlen(text) != length)
        *fits = false;
    else
        memcpy(out, text, length + 1);
}

static int64_t read_number(sqlite3_stmt *statement, int column, int64_t least, int64_t most,
                           bool *fits)
{
    int64_t number = sqlite3_column_int64(statement, column);
    if (number < least || number > most)
        *fits = false;
    return number;
}

/* How rows of one kind are given away: `context` of the reading functions is one of these. */
struct tenants_taken {
    void *context;
    enum status (*take)(void *context, const struct tenant *tenant, struct slice metadata);
};

static enum status read_tenant(void *context, sqlite3_stmt *statement)
{
    const struct tenants_taken *taken = context;
    bool fits = true;
    struct tenant tenant;
    tenant_rows_text(statement, 0, tenant.id, sizeof tenant.id, &fits);
    tenant_rows_text(statement, 1, tenant.name, sizeof tenant.name, &fits);
    tenant.state = (enum tenant_state)read_number(statement, 2, 0, TENANT_ARCHIVED, &fits);
    tenant.weight = (uint32_t)read_number(statement, 3, 1, 1000, &fits);
    tenant.created_at_s = read_number(statement, 4, 0, INT64_MAX, &fits);
    tenant.revision = read_number(statement, 5, 1, INT64_MAX, &fits);
    struct slice metadata = {(const char *)sqlite3_column_text(statement, 6),
                             (size_t)sqlite3_column_bytes(statement, 6)};
    tenant_rows_text(statement, 7, tenant.group, sizeof tenant.group, &fits);
    tenant.share = (enum tenant_share)read_number(statement, 8, 0, TENANT_SHARE_GROUP, &fits);
    tenant.cache_share = (uint32_t)read_number(statement, 9, 1, LIMIT_CACHE_SHARE, &fits);
    tenant.default_class =
        (enum service_class)read_number(statement, 10, 0, SERVICE_CLASS_COUNT - 1, &fits);
    tenant.best_class =
        (enum service_class)read_number(statement, 11, 0, SERVICE_CLASS_COUNT - 1, &fits);
    tenant_rows_text(statement, 12, tenant.models, sizeof tenant.models, &fits);
    if (metadata.bytes == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a row of the table tenants");
    if (!fits || metadata.length >= LIMIT_METADATA_BYTES)
        FAIL(STATUS_CORRUPT, "a row of the table tenants is out of its bounds");
    return taken->take(taken->context, &tenant,
                       slice_is(metadata, "{}") ? (struct slice){0} : metadata);
}

enum status tenant_rows_load(sqlite3 *connection, void *context,
                             enum status (*take)(void *, const struct tenant *, struct slice))
{
    struct tenants_taken taken = {context, take};
    return tenant_rows_each(connection,
                            "select id, name, state, weight, created_at_s, revision, metadata, "
                            "group_name, share, cache_share, default_class, best_class, models "
                            "from tenants order by number",
                            NULL, 0, read_tenant, &taken);
}

struct keys_taken {
    void *context;
    enum status (*take)(void *context, const struct tenant_rows_key *row);
};

static enum status read_key(void *context, sqlite3_stmt *statement)
{
    const struct keys_taken *taken = context;
    bool fits = true;
    struct tenant_rows_key row;
    struct tenant_key *key = &row.key;
    tenant_rows_text(statement, 0, key->id, sizeof key->id, &fits);
    tenant_rows_text(statement, 1, key->tenant_id, sizeof key->tenant_id, &fits);
    tenant_rows_text(statement, 2, key->name, sizeof key->name, &fits);
    tenant_rows_text(statement, 3, key->redacted, sizeof key->redacted, &fits);
    key->scopes = (uint32_t)read_number(statement, 4, 0, UINT32_MAX, &fits);
    key->created_at_s = read_number(statement, 6, 0, INT64_MAX, &fits);
    key->expires_at_s = read_number(statement, 7, 0, INT64_MAX, &fits);
    key->revoked_at_s = read_number(statement, 8, 0, INT64_MAX, &fits);
    key->last_used_at_s = read_number(statement, 9, 0, INT64_MAX, &fits);
    tenant_rows_text(statement, 10, key->rotated_to, sizeof key->rotated_to, &fits);
    key->revision = read_number(statement, 11, 1, INT64_MAX, &fits);
    if (!fits || sqlite3_column_bytes(statement, 5) != AUTH_CRYPTO_BYTES)
        FAIL(STATUS_CORRUPT, "a row of the table keys is out of its bounds");
    memcpy(row.hash, sqlite3_column_blob(statement, 5), AUTH_CRYPTO_BYTES);
    return taken->take(taken->context, &row);
}

enum status tenant_rows_load_keys(sqlite3 *connection, void *context,
                                  enum status (*take)(void *, const struct tenant_rows_key *))
{
    struct keys_taken taken = {context, take};
    return tenant_rows_each(connection,
                            "select id, tenant_id, name, redacted, scopes, hash, created_at_s, "
                            "expires_at_s, revoked_at_s, last_used_at_s, rotated_to, revision "
                            "from keys order by number",
                            NULL, 0, read_key, &taken);
}

struct audit_read {
    struct audit_row *rows;
    size_t count;
};

static enum status read_audit(void *context, sqlite3_stmt *statement)
{
    struct audit_read *into = context;
    struct audit_row *row = &into->rows[into->count];
    bool fits = true;
    row->id = sqlite3_column_int64(statement, 0);
    row->at_us = sqlite3_column_int64(statement, 1);
    tenant_rows_text(statement, 2, row->type, sizeof row->type, &fits);
    tenant_rows_text(statement, 3, row->actor_key_id, sizeof row->actor_key_id, &fits);
    tenant_rows_text(statement, 4, row->peer, sizeof row->peer, &fits);
    tenant_rows_text(statement, 5, row->request_id, sizeof row->request_id, &fits);
    tenant_rows_text(statement, 6, row->subject, sizeof row->subject, &fits);
    tenant_rows_text(statement, 7, row->detail, sizeof row->detail, &fits);
    tenant_rows_text(statement, 8, row->actor_subject, sizeof row->actor_subject, &fits);
    if (!fits)
        FAIL(STATUS_CORRUPT, "a row of the table audit is out of its bounds");
    into->count++;
    return STATUS_OK;
}

enum status tenant_rows_last_audit(sqlite3 *connection, int64_t *out)
{
    sqlite3_stmt *statement;
    TRY(tenant_rows_prepare(connection, "select coalesce(max(id), 0) from audit", NULL, 0,
                            &statement));
    enum status status = store_status(sqlite3_step(statement), "database");
    *out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

enum status tenant_rows_load_audit(sqlite3 *connection, const struct audit_filter *filter,
                                   int64_t after, struct audit_row *out, size_t capacity,
                                   size_t *count)
{
    struct audit_read into = {.rows = out};
    const struct tenant_rows_parameter parameters[] = {
        P_NUMBER(after),
        P_TEXT(filter->actor_key_id),
        P_TEXT(filter->subject),
        P_TEXT(filter->type),
        P_NUMBER(filter->since_s * 1000000),
        P_NUMBER(filter->until_s > 0 ? filter->until_s * 1000000 : INT64_MAX),
        P_NUMBER((int64_t)capacity)};
    enum status status = tenant_rows_each(
        connection,
        "select id, at_us, type, actor_key_id, peer, request_id, subject, detail, actor_subject "
        "from audit where id > ?1 and (?2 = '' or actor_key_id = ?2) and (?3 = '' or subject = ?3) "
        "and (?4 = '' or type = ?4 or substr(type, 1, length(?4) + 1) = ?4 || '.') "
        "and at_us >= ?5 and at_us < ?6 order by id limit ?7",
        parameters, 7, read_audit, &into);
    *count = into.count;
    return status;
}
