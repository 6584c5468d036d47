#include "auth/tenants/certificate_rows.h"

#include <sqlite3.h>

#define P_TEXT   TENANT_ROWS_TEXT
#define P_NUMBER TENANT_ROWS_NUMBER

enum status certificate_rows_insert(sqlite3 *connection, const struct certificate *row)
{
    const struct tenant_rows_parameter parameters[] = {
        P_TEXT(row->id),
        {.text = row->tenant_id, .is_null = row->tenant_id[0] == '\0'},
        P_TEXT(row->label),
        P_NUMBER((int64_t)row->match),
        P_TEXT(row->value),
        P_NUMBER(row->scopes),
        P_NUMBER(row->created_at_s),
        P_NUMBER(row->expires_at_s),
        P_NUMBER(row->revoked_at_s),
        P_NUMBER(row->revision)};
    return tenant_rows_change(connection,
                              "insert into certificates (id, tenant_id, label, kind, value, "
                              "scopes, created_at_s, expires_at_s, revoked_at_s, revision) "
                              "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                              parameters, sizeof parameters / sizeof parameters[0]);
}

enum status certificate_rows_update(sqlite3 *connection, const struct certificate *row)
{
    const struct tenant_rows_parameter parameters[] = {
        P_TEXT(row->label),          P_NUMBER(row->scopes),   P_NUMBER(row->expires_at_s),
        P_NUMBER(row->revoked_at_s), P_NUMBER(row->revision), P_TEXT(row->id)};
    return tenant_rows_change(connection,
                              "update certificates set label = ?, scopes = ?, expires_at_s = ?, "
                              "revoked_at_s = ?, revision = ? where id = ?",
                              parameters, sizeof parameters / sizeof parameters[0]);
}

enum status certificate_rows_update_used(sqlite3 *connection, const char *id,
                                         int64_t last_used_at_s)
{
    const struct tenant_rows_parameter parameters[] = {P_NUMBER(last_used_at_s), P_TEXT(id)};
    return tenant_rows_change(connection, "update certificates set last_used_at_s = ? where id = ?",
                              parameters, 2);
}

struct certificates_taken {
    void *context;
    enum status (*take)(void *context, const struct certificate *row);
};

static enum status read_row(void *context, sqlite3_stmt *statement)
{
    const struct certificates_taken *taken = context;
    struct certificate row = {.scopes = (uint32_t)sqlite3_column_int64(statement, 5),
                              .created_at_s = sqlite3_column_int64(statement, 6),
                              .expires_at_s = sqlite3_column_int64(statement, 7),
                              .revoked_at_s = sqlite3_column_int64(statement, 8),
                              .revision = sqlite3_column_int64(statement, 9),
                              .last_used_at_s = sqlite3_column_int64(statement, 10)};
    bool fits = true;
    int64_t match = sqlite3_column_int64(statement, 3);
    row.match = (enum certificate_match)match;
    tenant_rows_text(statement, 0, row.id, sizeof row.id, &fits);
    /* null: an admin's row */
    tenant_rows_text(statement, 1, row.tenant_id, sizeof row.tenant_id, &fits);
    tenant_rows_text(statement, 2, row.label, sizeof row.label, &fits);
    tenant_rows_text(statement, 4, row.value, sizeof row.value, &fits);
    if (!fits || match < 0 || match > CERTIFICATE_DNS || row.revision < 1)
        FAIL(STATUS_CORRUPT, "a row of the table certificates is out of its bounds");
    return taken->take(taken->context, &row);
}

enum status certificate_rows_load(sqlite3 *connection, void *context,
                                  enum status (*take)(void *, const struct certificate *))
{
    struct certificates_taken taken = {context, take};
    return tenant_rows_each(
        connection,
        "select id, tenant_id, label, kind, value, scopes, created_at_s, "
        "expires_at_s, revoked_at_s, revision, last_used_at_s from certificates "
        "order by number",
        NULL, 0, read_row, &taken);
}
