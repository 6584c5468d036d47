#include "auth/tenants/tenant_prompt_rows.h"

#include <sqlite3.h>

#define P_TEXT   TENANT_ROWS_TEXT
#define P_NUMBER TENANT_ROWS_NUMBER

enum status tenant_prompt_rows_insert(sqlite3 *connection, const struct tenant_prompt *prompt,
                                      struct slice content)
{
    const struct tenant_rows_parameter parameters[] = {
        P_TEXT(prompt->id),
        P_TEXT(prompt->name),
        {.text = content.bytes, .length = content.length},
        P_NUMBER(prompt->version),
        P_NUMBER(prompt->pin_until_s),
        P_NUMBER(prompt->created_at_s),
        P_NUMBER(prompt->revision)};
    return tenant_rows_change(connection,
                              "insert into prompts (id, name, content, version, pin_until_s, "
                              "created_at_s, revision) values (?, ?, ?, ?, ?, ?, ?)",
                              parameters, 7);
}

enum status tenant_prompt_rows_update(sqlite3 *connection, const struct tenant_prompt *prompt)
{
    const struct tenant_rows_parameter parameters[] = {
        P_TEXT(prompt->name), P_NUMBER(prompt->version), P_NUMBER(prompt->pin_until_s),
        P_NUMBER(prompt->revision), P_TEXT(prompt->id)};
    return tenant_rows_change(
        connection,
        "update prompts set name = ?, version = ?, pin_until_s = ?, revision = ? where id = ?",
        parameters, 5);
}

static enum status change_of(sqlite3 *connection, const char *sql, const char *id)
{
    const struct tenant_rows_parameter parameters[] = {P_TEXT(id)};
    return tenant_rows_change(connection, sql, parameters, 1);
}

enum status tenant_prompt_rows_delete(sqlite3 *connection, const char *id)
{
    TRY(change_of(connection, "delete from prompt_grants where prompt_id = ?", id));
    return change_of(connection, "delete from prompts where id = ?", id);
}

enum status tenant_prompt_rows_grant(sqlite3 *connection, const char *id,
                                     const struct tenant_prompt_grant *grants, size_t count)
{
    TRY(change_of(connection, "delete from prompt_grants where prompt_id = ?", id));
    for (size_t i = 0; i < count; i++) {
        const struct tenant_rows_parameter parameters[] = {P_TEXT(id), P_TEXT(grants[i].tenant_id),
                                                           P_TEXT(grants[i].group)};
        TRY(tenant_rows_change(connection,
                               "insert into prompt_grants (prompt_id, tenant_id, group_name) "
                               "values (?, ?, ?)",
                               parameters, 3));
    }
    return STATUS_OK;
}

/* --- reading --- */

struct prompts_taken {
    void *context;
    enum status (*take)(void *context, const struct tenant_prompt *prompt, struct slice content);
};

static enum status read_prompt(void *context, sqlite3_stmt *statement)
{
    const struct prompts_taken *taken = context;
    bool fits = true;
    struct tenant_prompt prompt = {0};
    struct slice content = {(const char *)sqlite3_column_text(statement, 2),
                            (size_t)sqlite3_column_bytes(statement, 2)};
    tenant_rows_text(statement, 0, prompt.id, sizeof prompt.id, &fits);
    tenant_rows_text(statement, 1, prompt.name, sizeof prompt.name, &fits);
    prompt.version = sqlite3_column_int64(statement, 3);
    prompt.pin_until_s = sqlite3_column_int64(statement, 4);
    prompt.created_at_s = sqlite3_column_int64(statement, 5);
    prompt.revision = sqlite3_column_int64(statement, 6);
    if (!fits || content.bytes == NULL || prompt.version < 1 || prompt.pin_until_s < 0 ||
        prompt.created_at_s < 0 || prompt.revision < 1)
        FAIL(STATUS_CORRUPT, "a row of the table prompts is out of its bounds");
    return taken->take(taken->context, &prompt, content);
}

enum status tenant_prompt_rows_load(sqlite3 *connection, void *context,
                                    enum status (*take)(void *, const struct tenant_prompt *,
                                                        struct slice))
{
    struct prompts_taken taken = {context, take};
    return tenant_rows_each(connection,
                            "select id, name, content, version, pin_until_s, created_at_s, "
                            "revision from prompts order by number",
                            NULL, 0, read_prompt, &taken);
}

struct grants_read {
    struct tenant_prompt_grant *grants;
    size_t count;
};

static enum status read_grant(void *context, sqlite3_stmt *statement)
{
    struct grants_read *into = context;
    struct tenant_prompt_grant *grant = &into->grants[into->count];
    bool fits = true;
    if (into->count == LIMIT_PROMPT_GRANTS)
        FAIL(STATUS_LIMIT, "the database holds a prompt with more than %d grants",
             LIMIT_PROMPT_GRANTS);
    tenant_rows_text(statement, 0, grant->tenant_id, sizeof grant->tenant_id, &fits);
    tenant_rows_text(statement, 1, grant->group, sizeof grant->group, &fits);
    if (!fits)
        FAIL(STATUS_CORRUPT, "a row of the table prompt_grants is out of its bounds");
    into->count++;
    return STATUS_OK;
}

enum status tenant_prompt_rows_load_grants(sqlite3 *connection, const char *id,
                                           struct tenant_prompt_grant out[LIMIT_PROMPT_GRANTS],
                                           size_t *count)
{
    struct grants_read into = {.grants = out};
    const struct tenant_rows_parameter parameters[] = {P_TEXT(id)};
    enum status status =
        tenant_rows_each(connection,
                         "select tenant_id, group_name from prompt_grants where prompt_id = ? "
                         "order by tenant_id = '', tenant_id, group_name",
                         parameters, 1, read_grant, &into);
    *count = into.count;
    return status;
}
