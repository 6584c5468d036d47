#include "auth/ledger/ledger_minute.h"

#include <sqlite3.h>
#include <string.h>

#include "config/store.h"

enum {
    MINUTE_US = 60000000,
    /* Rows are not quite in the order of their times, because a row may wait for its engine's
     * record. After so many old rows in a row, no younger one is expected. */
    OLD_ROWS = 1000,
};

static void column_text(sqlite3_stmt *statement, int column, char out[LIMIT_ID_BYTES])
{
    const char *text = (const char *)sqlite3_column_text(statement, column);
    size_t length = (size_t)sqlite3_column_bytes(statement, column);
    length = text != NULL && length < LIMIT_ID_BYTES ? length : 0;
    memcpy(out, text != NULL ? text : "", length);
    out[length] = '\0';
}

static enum status read_rows(sqlite3_stmt *statement, int64_t now_us, void *context,
                             void (*take)(void *, const struct ledger_minute_row *))
{
    uint32_t old = 0;
    int code = SQLITE_ROW;
    for (uint32_t i = 0; i < LIMIT_LEDGER_MINUTE_ROWS && old < OLD_ROWS; i++) {
        code = sqlite3_step(statement);
        if (code != SQLITE_ROW)
            break;
        int64_t at_us = sqlite3_column_int64(statement, 0);
        old = at_us <= now_us - MINUTE_US ? old + 1 : 0;
        if (old != 0 || at_us > now_us)
            continue;
        struct ledger_minute_row row = {.prompt_tokens = sqlite3_column_int64(statement, 3),
                                        .cached_tokens = sqlite3_column_int64(statement, 4),
                                        .completion_tokens = sqlite3_column_int64(statement, 5),
                                        .is_text = sqlite3_column_int(statement, 6) != 0};
        column_text(statement, 1, row.tenant_id);
        column_text(statement, 2, row.key_id);
        take(context, &row);
    }
    return store_status(code, "ledger");
}

enum status ledger_minute_read(const char *path, int64_t now_us, void *context,
                               void (*take)(void *context, const struct ledger_minute_row *row))
{
    static const char sql[] =
        "select at_us, tenant_id, key_id, prompt_tokens, cached_tokens, completion_tokens,"
        " service_class = '" LEDGER_CLASS_TEXT "' from requests order by id desc";
    sqlite3 *connection = NULL;
    sqlite3_stmt *statement = NULL;
    TRY(store_connect(&connection, path, false));
    enum status status = store_execute(connection, "pragma query_only = on");
    if (status == STATUS_OK)
        status = store_status(sqlite3_prepare_v2(connection, sql, -1, &statement, NULL), "ledger");
    if (status == STATUS_OK)
        status = read_rows(statement, now_us, context, take);
    sqlite3_finalize(statement);
    sqlite3_close(connection);
    return status;
}
