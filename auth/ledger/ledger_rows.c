#include "auth/ledger/ledger_rows.h"

#include <sqlite3.h>

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "config/store.h"

/* The number of this file's edge in its row ids. A file has the rows of one edge. */
static const int64_t edge_id = 1;
enum { SEQUENCE_BITS = 48 };

static const char *const ledger_steps[] = {
    "create table requests ("
    " id integer primary key,"
    " at_us integer not null,"
    " request_id text not null,"
    " tenant_id text not null,"
    " key_id text not null,"
    " model text not null,"
    " route text not null,"
    " service_class text not null,"
    " finish text not null,"
    " http_code integer not null,"
    " prompt_tokens integer not null,"
    " cached_tokens integer not null,"
    " completion_tokens integer not null,"
    " is_estimated integer not null,"
    " queue_us integer not null,"
    " prefill_us integer not null,"
    " decode_us integer not null,"
    " total_us integer not null"
    ") strict;"
    "create table usage_minutes ("
    " minute integer not null," /* since 1970 */
    " tenant_id text not null,"
    " key_id text not null,"
    " model text not null,"
    " service_class text not null,"
    " requests integer not null,"
    " prompt_tokens integer not null,"
    " cached_tokens integer not null,"
    " completion_tokens integer not null,"
    " primary key (minute, tenant_id, key_id, model, service_class)"
    ") strict, without rowid;",
    /* Finds a tenant's usage without reading that of others. An entry is made with the first row of
     * a minute's group, not with each addition to it. */
    "create index usage_minutes_tenant on usage_minutes (tenant_id, minute);",
    /* A unique name for this file's edge, because sequences alone are not unique across edges. */
    "create table edges (id integer primary key, name text not null) strict;"
    "insert into edges values (1, lower(hex(randomblob(8))));",

    /* Older rows cost nothing, because there were no prices. */
    "alter table requests add column cost_nano integer not null default 0;"
    "alter table usage_minutes add column cost_nano integer not null default 0;",

    "alter table requests add column reasoning_tokens integer not null default 0;",
};

/* The sums of a transaction's rows, by the group in usage_minutes that they are added to. A batch
 * mostly has one minute and a few keys. A full table is written to the file and emptied. */
enum { GROUPS = 64 };
struct group {
    uint64_t print;
    int64_t minute;
    const struct ledger_row *row; /* names the group; lives until ledger_rows_end */
    int64_t requests;
    int64_t prompt_tokens;
    int64_t cached_tokens;
    int64_t completion_tokens;
    int64_t cost_nano; /* INT64_MAX: that much or more */
};

enum statement {
    STATEMENT_BEGIN,
    STATEMENT_COMMIT,
    STATEMENT_ROW,
    STATEMENT_SUM,
    STATEMENT_LOOK, /* this and the next use the second connection */
    STATEMENT_DELETE,
    STATEMENTS
};

static const char *const statement_sql[STATEMENTS] = {
    "begin immediate",
    "commit",
    "insert into requests values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    "insert into usage_minutes values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do update set"
    " requests = requests + excluded.requests,"
    " prompt_tokens = prompt_tokens + excluded.prompt_tokens,"
    " cached_tokens = cached_tokens + excluded.cached_tokens,"
    " completion_tokens = completion_tokens + excluded.completion_tokens,"
    /* A sum beyond 64 bits stays at the largest number. SQLite would make a floating-point number
     * of it, which a strict table refuses, and no row could be committed any more. */
    " cost_nano = case when cost_nano > 9223372036854775807 - excluded.cost_nano"
    " then 9223372036854775807 else cost_nano + excluded.cost_nano end",
    /* Leaves out the last row, because the next sequence is read from it. */
    ("select id, at_us from requests where id >= ?1 and id < (select max(id) from requests)"
     " order by id limit ?2"),
    "delete from requests where id between ?1 and ?2 and at_us < ?3",
};

struct ledger_rows {
    sqlite3 *writer;
    sqlite3 *checkpointer;
    sqlite3_stmt *statements[STATEMENTS];
    int64_t sequence;      /* of the last row that is committed */
    int64_t sequence_next; /* of the next row of the transaction */
    int wal_pages;
    int group_count;
    struct group groups[GROUPS];
};

/* Replaces SQLite's own hook, which would make a checkpoint while a client waits for its commit. */
static int open_wal_hook(void *context, sqlite3 *connection, const char *name, int pages)
{
    struct ledger_rows *rows = context;
    (void)connection;
    (void)name;
    rows->wal_pages = pages;
    return SQLITE_OK;
}

static enum status open_sequence(struct ledger_rows *rows)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(rows->writer,
                                  "select coalesce(max(id), ?1) - ?1 from requests where id >= ?1 "
                                  "and id < ?2",
                                  -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 1, edge_id << SEQUENCE_BITS);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, (edge_id + 1) << SEQUENCE_BITS);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        rows->sequence = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return store_status(code, "ledger");
}

static enum status open_connections(struct ledger_rows *rows, const char *path, bool is_full)
{
    TRY(store_connect(&rows->writer, path, is_full));
    TRY(store_migrate(rows->writer, ledger_steps,
                      (int)(sizeof ledger_steps / sizeof ledger_steps[0])));
    TRY(store_connect(&rows->checkpointer, path, false));
    sqlite3_wal_autocheckpoint(rows->checkpointer, 0);
    sqlite3_wal_hook(rows->writer, open_wal_hook, rows);
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3 *connection = i < STATEMENT_LOOK ? rows->writer : rows->checkpointer;
        int code = sqlite3_prepare_v3(connection, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &rows->statements[i], NULL);
        TRY(store_status(code, "ledger"));
    }
    return open_sequence(rows);
}

enum status ledger_rows_open(struct ledger_rows **out, const char *path, bool is_full)
{
    *out = NULL;
    struct ledger_rows *rows = mem_zalloc(1, sizeof *rows);
    if (rows == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the ledger");
    enum status status = open_connections(rows, path, is_full);
    if (status != STATUS_OK) {
        ledger_rows_close(rows);
        return status;
    }
    *out = rows;
    return STATUS_OK;
}

void ledger_rows_close(struct ledger_rows *rows)
{
    if (rows == NULL)
        return;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(rows->statements[i]);
    sqlite3_close(rows->checkpointer);
    sqlite3_close(rows->writer); /* the last connection: SQLite removes the write-ahead log */
    mem_free(rows);
}

static enum status rows_step(struct ledger_rows *rows, enum statement which)
{
    sqlite3_stmt *statement = rows->statements[which];
    int code = sqlite3_step(statement);
    enum status status = store_status(code, "ledger");
    sqlite3_reset(statement);
    return status;
}

enum status ledger_rows_begin(struct ledger_rows *rows)
{
    rows->group_count = 0;
    rows->sequence_next = rows->sequence + 1;
    return rows_step(rows, STATEMENT_BEGIN);
}

static int bind_text(sqlite3_stmt *statement, int at, const char *text)
{
    return sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC);
}

static enum status end_groups(struct ledger_rows *rows)
{
    sqlite3_stmt *statement = rows->statements[STATEMENT_SUM];
    for (int i = 0; i < rows->group_count; i++) {
        const struct group *group = &rows->groups[i];
        const char *const texts[] = {group->row->tenant_id, group->row->key_id, group->row->model,
                                     group->row->service_class};
        const int64_t sums[] = {group->requests, group->prompt_tokens, group->cached_tokens,
                                group->completion_tokens, group->cost_nano};
        int failed = sqlite3_bind_int64(statement, 1, group->minute);
        for (int j = 0; j < 4; j++)
            failed |= bind_text(statement, 2 + j, texts[j]);
        for (int j = 0; j < 5; j++)
            failed |= sqlite3_bind_int64(statement, 6 + j, sums[j]);
        if (failed != 0)
            FAIL(STATUS_NO_MEMORY, "no memory for a row of the ledger");
        TRY(rows_step(rows, STATEMENT_SUM));
    }
    rows->group_count = 0;
    return STATUS_OK;
}

static bool group_matches(const struct group *group, uint64_t print, const struct ledger_row *row)
{
    return group->print == print && group->minute == row->at_us / 60000000 &&
           strcmp(group->row->tenant_id, row->tenant_id) == 0 &&
           strcmp(group->row->key_id, row->key_id) == 0 &&
           strcmp(group->row->model, row->model) == 0 &&
           strcmp(group->row->service_class, row->service_class) == 0;
}

static enum status add_to_group(struct ledger_rows *rows, const struct ledger_row *row)
{
    uint64_t print = hash_bytes(hash_process_key(), row->key_id, strlen(row->key_id));
    int at = 0;
    while (at < rows->group_count && !group_matches(&rows->groups[at], print, row))
        at++;
    if (at == GROUPS) {
        TRY(end_groups(rows));
        at = 0;
    }
    struct group *group = &rows->groups[at];
    if (at == rows->group_count) {
        *group = (struct group){.print = print, .minute = row->at_us / 60000000, .row = row};
        rows->group_count++;
    }
    group->requests += 1;
    group->prompt_tokens += row->prompt_tokens;
    group->cached_tokens += row->cached_tokens;
    group->completion_tokens += row->completion_tokens;
    if (__builtin_add_overflow(group->cost_nano, row->cost_nano, &group->cost_nano))
        group->cost_nano = INT64_MAX;
    return STATUS_OK;
}

enum status ledger_rows_add(struct ledger_rows *rows, const struct ledger_row *row)
{
    sqlite3_stmt *statement = rows->statements[STATEMENT_ROW];
    const char *const texts[] = {row->request_id, row->tenant_id,     row->key_id, row->model,
                                 row->route,      row->service_class, row->finish};
    const int64_t numbers[] = {row->http_code,         row->prompt_tokens,   row->cached_tokens,
                               row->completion_tokens, row->is_estimated,    row->queue_us,
                               row->prefill_us,        row->decode_us,       row->total_us,
                               row->cost_nano,         row->reasoning_tokens};
    int failed = sqlite3_bind_int64(statement, 1, (edge_id << SEQUENCE_BITS) + rows->sequence_next);
    failed |= sqlite3_bind_int64(statement, 2, row->at_us);
    for (int i = 0; i < 7; i++)
        failed |= bind_text(statement, 3 + i, texts[i]);
    for (int i = 0; i < 11; i++)
        failed |= sqlite3_bind_int64(statement, 10 + i, numbers[i]);
    if (failed != 0)
        FAIL(STATUS_NO_MEMORY, "no memory for a row of the ledger");
    TRY(rows_step(rows, STATEMENT_ROW));
    rows->sequence_next++;
    return add_to_group(rows, row);
}

enum status ledger_rows_end(struct ledger_rows *rows, bool commit)
{
    enum status status = commit ? end_groups(rows) : STATUS_OK;
    if (status == STATUS_OK && commit)
        status = rows_step(rows, STATEMENT_COMMIT);
    if (!commit || status != STATUS_OK)
        sqlite3_exec(rows->writer, "rollback", NULL, NULL, NULL); /* unless SQLite has done it */
    else
        rows->sequence = rows->sequence_next - 1;
    return status;
}

void ledger_rows_set_patience(struct ledger_rows *rows, bool waits)
{
    sqlite3_busy_timeout(rows->writer, waits ? STORE_BUSY_MS : 0);
}

int ledger_rows_wal_pages(const struct ledger_rows *rows)
{
    return rows->wal_pages;
}

enum status ledger_rows_checkpoint(struct ledger_rows *rows, bool by_writer)
{
    sqlite3 *connection = by_writer ? rows->writer : rows->checkpointer;
    int code = sqlite3_wal_checkpoint_v2(connection, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return (code & 0xff) == SQLITE_BUSY ? STATUS_OK : store_status(code, "ledger");
}

enum status ledger_rows_recent(struct ledger_rows *rows, uint32_t count, void *context,
                               void (*take)(void *context, struct slice request_id))
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(rows->writer,
                                  "select request_id from requests where id > "
                                  "(select max(id) from requests) - ? order by id",
                                  -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 1, count);
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
            take(context, (struct slice){(const char *)sqlite3_column_text(statement, 0),
                                         (size_t)sqlite3_column_bytes(statement, 0)});
    }
    sqlite3_finalize(statement);
    return store_status(code, "ledger");
}

/* --- retention --- */

/* What was found in the next rows. */
struct look {
    int64_t first_old;
    int64_t last_old;
    uint32_t old;
    uint32_t seen;
    bool is_at_front; /* a row was found that stays and is not from the future */
};

static void expire_pass(struct ledger_expiry *expiry, int64_t id, int64_t at_us)
{
    if (expiry->passed_id == 0) {
        expiry->passed_id = id;
        expiry->passed_us = at_us;
    } else if (at_us < expiry->passed_us) {
        expiry->passed_us = at_us;
    }
}

/* Returns to rows that were passed over, once they are not from the future any more: time has
 * passed, or the clock was set right. */
static void expire_return(struct ledger_expiry *expiry)
{
    if (expiry->passed_id == 0 || expiry->passed_us > expiry->now_us)
        return;
    expiry->cursor = expiry->passed_id;
    expiry->passed_id = 0;
}

static enum status expire_look(struct ledger_rows *rows, struct ledger_expiry *expiry,
                               struct look *look)
{
    sqlite3_stmt *statement = rows->statements[STATEMENT_LOOK];
    int failed = sqlite3_bind_int64(statement, 1, expiry->cursor);
    failed |= sqlite3_bind_int64(statement, 2, LEDGER_ROWS_EXPIRE);
    int code = failed != 0 ? SQLITE_NOMEM : sqlite3_step(statement);
    for (; code == SQLITE_ROW && !look->is_at_front; code = sqlite3_step(statement)) {
        int64_t id = sqlite3_column_int64(statement, 0);
        int64_t at_us = sqlite3_column_int64(statement, 1);
        look->seen++;
        look->is_at_front = at_us >= expiry->cutoff_us && at_us <= expiry->now_us;
        expiry->cursor = look->is_at_front ? id : id + 1;
        expiry->front_us = look->is_at_front ? at_us : INT64_MAX;
        if (at_us > expiry->now_us)
            expire_pass(expiry, id, at_us);
        if (at_us < expiry->cutoff_us) {
            look->first_old = look->old == 0 ? id : look->first_old;
            look->last_old = id;
            look->old++;
        }
    }
    sqlite3_reset(statement);
    return store_status(code, "ledger");
}

enum status ledger_rows_expire(struct ledger_rows *rows, struct ledger_expiry *expiry)
{
    struct look look = {0};
    expire_return(expiry);
    int64_t cursor = expiry->cursor;
    expiry->front_us = INT64_MAX;
    TRY(expire_look(rows, expiry, &look));
    expiry->is_done = look.is_at_front || look.seen < LEDGER_ROWS_EXPIRE;
    if (look.old == 0)
        return STATUS_OK;
    sqlite3_stmt *statement = rows->statements[STATEMENT_DELETE];
    int failed = sqlite3_bind_int64(statement, 1, look.first_old);
    failed |= sqlite3_bind_int64(statement, 2, look.last_old);
    failed |= sqlite3_bind_int64(statement, 3, expiry->cutoff_us);
    enum status status =
        failed != 0 ? store_status(SQLITE_NOMEM, "ledger") : rows_step(rows, STATEMENT_DELETE);
    if (status != STATUS_OK)
        expiry->cursor = cursor; /* looks at the same rows again next time */
    else
        expiry->deleted += look.old;
    return status;
}
