#include "auth/ledger/ledger_ship.h"

#include <stdio.h>
#include <string.h>

#include <sqlite3.h>

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "config/store.h"

enum { DAY_MINUTES = 1440 };

/* As in ledger_rows: the high bits of a row id are the number of the file's edge, 1. */
#define ROWS_FIRST (INT64_C(1) << 48)
#define ROWS_END   (INT64_C(2) << 48)

enum statement {
    STATEMENT_EDGE,
    STATEMENT_FIRST,
    STATEMENT_LAST,
    STATEMENT_ID,
    STATEMENT_ROWS,
    STATEMENT_DAY,
    STATEMENT_SUMS,
    STATEMENT_TENANT,
    STATEMENTS
};

/* Costs are summed in two halves, because a sum beyond 64 bits is an error of SQLite. */
#define SUMS                                                                                       \
    "select tenant_id, model, service_class, sum(requests), sum(prompt_tokens), "                  \
    "sum(cached_tokens), sum(completion_tokens), sum(cost_nano >> 32), "                           \
    "sum(cost_nano & 0xffffffff) from usage_minutes "
#define SUMS_GROUPS                                                                                \
    " group by tenant_id, model, service_class order by tenant_id, model, service_class"

/* A parameter's number has the same meaning in every statement. */
static const char *const statement_sql[STATEMENTS] = {
    "select name from edges where id = 1",
    "select min(id) from requests where id >= ?1 and id < ?2",
    "select max(id) from requests where id >= ?1 and id < ?2",
    "select request_id from requests where id = ?1",
    "select id, at_us, tenant_id, key_id, model, service_class, finish, http_code, prompt_tokens,"
    " cached_tokens, completion_tokens, is_estimated, cost_nano from requests where id > ?1 and id "
    "< ?2"
    " order by id limit ?3",
    "select min(minute) from usage_minutes where minute >= ?1",
    SUMS "where minute >= ?1 and minute < ?2" SUMS_GROUPS,
    SUMS "indexed by usage_minutes_tenant where tenant_id = ?3 and minute >= ?1 and minute < "
         "?2" SUMS_GROUPS,
};

struct ledger_ship {
    sqlite3 *connection;
    sqlite3_stmt *statements[STATEMENTS];
    char edge[LEDGER_SHIP_EDGE_BYTES];
};

static void ship_text(sqlite3_stmt *statement, int column, char *out, size_t capacity)
{
    const unsigned char *text = sqlite3_column_text(statement, column);
    snprintf(out, capacity, "%s", text != NULL ? (const char *)text : "");
}

/* Binds two numbers; SQLite ignores those that the statement has no parameter for. */
static sqlite3_stmt *ship_bind(struct ledger_ship *ship, enum statement which, int64_t one,
                               int64_t two)
{
    sqlite3_stmt *statement = ship->statements[which];
    sqlite3_bind_int64(statement, 1, one);
    sqlite3_bind_int64(statement, 2, two);
    return statement;
}

/* --- open --- */

static enum status open_connection(struct ledger_ship *ship, const char *path)
{
    TRY(store_connect(&ship->connection, path, false));
    /* Sums are grouped in memory, because the sandbox leaves no place for temporary files. */
    TRY(store_execute(ship->connection, "pragma query_only = on; pragma temp_store = memory"));
    for (int i = 0; i < STATEMENTS; i++) {
        int code = sqlite3_prepare_v3(ship->connection, statement_sql[i], -1,
                                      SQLITE_PREPARE_PERSISTENT, &ship->statements[i], NULL);
        TRY(store_status(code, "ledger"));
    }
    sqlite3_stmt *statement = ship->statements[STATEMENT_EDGE];
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        ship_text(statement, 0, ship->edge, sizeof ship->edge);
    sqlite3_reset(statement);
    TRY(store_status(code, "ledger"));
    if (ship->edge[0] == '\0')
        FAIL(STATUS_CORRUPT, "the ledger's file has no name of its edge");
    return STATUS_OK;
}

enum status ledger_ship_open(struct ledger_ship **out, const char *path)
{
    *out = NULL;
    struct ledger_ship *ship = mem_zalloc(1, sizeof *ship);
    if (ship == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to read the ledger");
    enum status status = open_connection(ship, path);
    if (status != STATUS_OK) {
        ledger_ship_close(ship);
        return status;
    }
    *out = ship;
    return STATUS_OK;
}

void ledger_ship_close(struct ledger_ship *ship)
{
    if (ship == NULL)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(ship->statements[i]);
    sqlite3_close(ship->connection);
    mem_free(ship);
}

const char *ledger_ship_edge(const struct ledger_ship *ship)
{
    return ship->edge;
}

/* --- rows --- */

/* The one number that a statement returns; `none` when it is null. */
static enum status ship_number(sqlite3_stmt *statement, int64_t none, int64_t *out)
{
    int code = sqlite3_step(statement);
    *out = none;
    if (code == SQLITE_ROW && sqlite3_column_type(statement, 0) != SQLITE_NULL)
        *out = sqlite3_column_int64(statement, 0);
    sqlite3_reset(statement);
    return store_status(code, "ledger");
}

enum status ledger_ship_span(struct ledger_ship *ship, int64_t *first, int64_t *last)
{
    TRY(ship_number(ship_bind(ship, STATEMENT_FIRST, ROWS_FIRST, ROWS_END), ROWS_FIRST, first));
    TRY(ship_number(ship_bind(ship, STATEMENT_LAST, ROWS_FIRST, ROWS_END), ROWS_FIRST, last));
    *first -= ROWS_FIRST;
    *last -= ROWS_FIRST;
    return STATUS_OK;
}

enum status ledger_ship_print(struct ledger_ship *ship, int64_t sequence, uint64_t *print)
{
    static const struct hash_key key = {1, 2}; /* the same in every process */
    sqlite3_stmt *statement = ship_bind(ship, STATEMENT_ID, ROWS_FIRST + sequence, 0);
    int code = sqlite3_step(statement);
    *print = 0;
    if (code == SQLITE_ROW) {
        const void *text = sqlite3_column_text(statement, 0);
        *print = hash_bytes(&key, text, (size_t)sqlite3_column_bytes(statement, 0)) | 1;
    }
    sqlite3_reset(statement);
    return store_status(code, "ledger");
}

static void rows_read(sqlite3_stmt *statement, struct ledger_row *row)
{
    *row = (struct ledger_row){.sequence = sqlite3_column_int64(statement, 0) - ROWS_FIRST,
                               .at_us = sqlite3_column_int64(statement, 1),
                               .http_code = sqlite3_column_int(statement, 7),
                               .prompt_tokens = (uint32_t)sqlite3_column_int64(statement, 8),
                               .cached_tokens = (uint32_t)sqlite3_column_int64(statement, 9),
                               .completion_tokens = (uint32_t)sqlite3_column_int64(statement, 10),
                               .is_estimated = sqlite3_column_int(statement, 11) != 0,
                               .cost_nano = sqlite3_column_int64(statement, 12)};
    ship_text(statement, 2, row->tenant_id, sizeof row->tenant_id);
    ship_text(statement, 3, row->key_id, sizeof row->key_id);
    ship_text(statement, 4, row->model, sizeof row->model);
    ship_text(statement, 5, row->service_class, sizeof row->service_class);
    ship_text(statement, 6, row->finish, sizeof row->finish);
}

enum status ledger_ship_rows(struct ledger_ship *ship, int64_t after, struct ledger_row *rows,
                             size_t capacity, size_t *count, bool *is_gapped)
{
    sqlite3_stmt *statement = ship_bind(ship, STATEMENT_ROWS, ROWS_FIRST + after, ROWS_END);
    sqlite3_bind_int64(statement, 3, (int64_t)capacity);
    *count = 0;
    *is_gapped = false;
    int code = sqlite3_step(statement);
    for (; code == SQLITE_ROW && *count < capacity; code = sqlite3_step(statement)) {
        struct ledger_row *row = &rows[*count];
        rows_read(statement, row);
        if (*count == 0)
            *is_gapped = row->sequence != after + 1;
        else if (row->sequence != rows[*count - 1].sequence + 1)
            break;
        ++*count;
    }
    sqlite3_reset(statement);
    return store_status(code, "ledger");
}

/* --- sums --- */

enum status ledger_ship_begin(struct ledger_ship *ship, int64_t *sequence)
{
    TRY(store_execute(ship->connection, "begin"));
    /* The first read decides which commit the transaction sees. */
    enum status status =
        ship_number(ship_bind(ship, STATEMENT_LAST, ROWS_FIRST, ROWS_END), ROWS_FIRST, sequence);
    *sequence -= ROWS_FIRST;
    if (status != STATUS_OK)
        ledger_ship_end(ship);
    return status;
}

void ledger_ship_end(struct ledger_ship *ship)
{
    /* Nothing was written, so a rollback can only fail when no transaction is open. */
    sqlite3_exec(ship->connection, "rollback", NULL, NULL, NULL);
}

enum status ledger_ship_day(struct ledger_ship *ship, int64_t day, int64_t *found)
{
    TRY(ship_number(ship_bind(ship, STATEMENT_DAY, day * DAY_MINUTES, 0), INT64_MAX, found));
    if (*found != INT64_MAX)
        *found /= DAY_MINUTES;
    return STATUS_OK;
}

static void sums_read(sqlite3_stmt *statement, struct ledger_ship_sum *sum)
{
    ship_text(statement, 0, sum->tenant_id, sizeof sum->tenant_id);
    ship_text(statement, 1, sum->model, sizeof sum->model);
    ship_text(statement, 2, sum->service_class, sizeof sum->service_class);
    sum->requests = sqlite3_column_int64(statement, 3);
    sum->prompt_tokens = sqlite3_column_int64(statement, 4);
    sum->cached_tokens = sqlite3_column_int64(statement, 5);
    sum->completion_tokens = sqlite3_column_int64(statement, 6);
    int64_t high = 0;
    if (__builtin_mul_overflow(sqlite3_column_int64(statement, 7), INT64_C(1) << 32, &high) ||
        __builtin_add_overflow(high, sqlite3_column_int64(statement, 8), &sum->cost_nano))
        sum->cost_nano = INT64_MAX;
}

enum status ledger_ship_sums(struct ledger_ship *ship, int64_t day, const char *tenant_id,
                             void *context,
                             enum status (*take)(void *context, const struct ledger_ship_sum *sum))
{
    enum statement which = tenant_id[0] != '\0' ? STATEMENT_TENANT : STATEMENT_SUMS;
    sqlite3_stmt *statement = ship_bind(ship, which, day * DAY_MINUTES, (day + 1) * DAY_MINUTES);
    if (which == STATEMENT_TENANT)
        sqlite3_bind_text(statement, 3, tenant_id, -1, SQLITE_TRANSIENT);
    struct ledger_ship_sum sum;
    enum status status = STATUS_OK;
    int code = sqlite3_step(statement);
    while (code == SQLITE_ROW && status == STATUS_OK) {
        sums_read(statement, &sum);
        status = take(context, &sum);
        code = status == STATUS_OK ? sqlite3_step(statement) : code;
    }
    sqlite3_reset(statement);
    return status != STATUS_OK ? status : store_status(code, "ledger");
}
