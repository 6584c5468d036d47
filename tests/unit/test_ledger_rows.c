#include "auth/ledger/ledger_rows.h"

#include "tests/unit/base_kit.h"

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    char folder[64];
    char path[96];
    struct ledger_rows *rows;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    kit_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof fixture->path, "%s/ledger.db", fixture->folder);
    assert_int_equal(ledger_rows_open(&fixture->rows, fixture->path, false), STATUS_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    ledger_rows_close(fixture->rows);
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

static int64_t query(struct fixture *fixture, const char *sql)
{
    sqlite3 *connection;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(fixture->path, &connection), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(connection, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(connection);
    return number;
}

static struct ledger_row make_row(int number)
{
    struct ledger_row row = {.at_us = INT64_C(60000000) * (number / 3),
                             .http_code = 200 + number,
                             .prompt_tokens = UINT32_MAX,
                             .cached_tokens = 2,
                             .completion_tokens = 3,
                             .cost_nano = 1000000007,
                             .is_estimated = true,
                             .queue_us = 4,
                             .prefill_us = 5,
                             .decode_us = 6,
                             .total_us = 7};
    snprintf(row.request_id, sizeof row.request_id, "req_%d", number);
    snprintf(row.tenant_id, sizeof row.tenant_id, "tnt");
    snprintf(row.key_id, sizeof row.key_id, "key_%d", number);
    snprintf(row.model, sizeof row.model, "it's \"m\"");
    snprintf(row.route, sizeof row.route, "/v1/completions");
    snprintf(row.service_class, sizeof row.service_class, "batch");
    snprintf(row.finish, sizeof row.finish, "length");
    return row;
}

static void test_columns(void **state)
{
    struct fixture *fixture = *state;
    struct ledger_row row = make_row(1);
    assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
    assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
    assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
    assert_int_equal(query(fixture, "select count(*) from requests where id = (1 << 48) + 1 and "
                                    "at_us = 0 and request_id = 'req_1' and tenant_id = 'tnt' and "
                                    "key_id = 'key_1' and model = 'it''s \"m\"' and route = "
                                    "'/v1/completions' and service_class = 'batch' and finish = "
                                    "'length' and http_code = 201 and prompt_tokens = 4294967295 "
                                    "and cached_tokens = 2 and completion_tokens = 3 and "
                                    "is_estimated = 1 and queue_us = 4 and prefill_us = 5 and "
                                    "decode_us = 6 and total_us = 7 and cost_nano = 1000000007"),
                     1);
}

/* More groups in a batch than the table of sums holds, twice over, in two transactions. */
static void test_sums_of_many_groups(void **state)
{
    struct fixture *fixture = *state;
    enum { KEYS = 200 };
    static struct ledger_row rows[KEYS]; /* a transaction's rows live until its end */
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
        for (int repeat = 0; repeat < 2; repeat++) {
            for (int i = 0; i < KEYS; i++) {
                rows[i] = make_row(i);
                assert_int_equal(ledger_rows_add(fixture->rows, &rows[i]), STATUS_OK);
            }
        }
        assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
    }
    assert_int_equal(query(fixture, "select count(*) from usage_minutes"), KEYS);
    assert_int_equal(query(fixture, "select count(*) from usage_minutes where requests = 4 and "
                                    "prompt_tokens = 4 * 4294967295 and cached_tokens = 8 and "
                                    "completion_tokens = 12 and cost_nano = 4 * 1000000007"),
                     KEYS);
    assert_int_equal(query(fixture, "select max(minute) from usage_minutes"), (KEYS - 1) / 3);
}

/* Costs that leave 64 bits stay at their end: within a transaction, and beside what is there. */
static void test_costs_beyond_64_bits(void **state)
{
    struct fixture *fixture = *state;
    static struct ledger_row row;
    row = make_row(1);
    row.cost_nano = INT64_MAX / 2;
    static const int added[] = {1, 3, 1}; /* INT64_MAX / 2, then all of it */
    for (size_t i = 0; i < sizeof added / sizeof added[0]; i++) {
        assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
        for (int j = 0; j < added[i]; j++)
            assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
        assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
        assert_int_equal(query(fixture, "select cost_nano from usage_minutes"),
                         i == 0 ? INT64_MAX / 2 : INT64_MAX);
    }
    assert_int_equal(query(fixture, "select count(*) from requests"), 5);
}

static void test_roll_back_gives_sequences_again(void **state)
{
    struct fixture *fixture = *state;
    struct ledger_row row = make_row(1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
        assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
        assert_int_equal(ledger_rows_end(fixture->rows, i == 2), STATUS_OK);
    }
    assert_int_equal(query(fixture, "select max(id) - (1 << 48) from requests"), 1);
    assert_int_equal(query(fixture, "select sum(requests) from usage_minutes"), 1);
    ledger_rows_close(fixture->rows);
    assert_int_equal(ledger_rows_open(&fixture->rows, fixture->path, true), STATUS_OK);
    assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
    assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
    assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
    assert_int_equal(query(fixture, "select max(id) - (1 << 48) from requests"), 2);
}

struct ids {
    int count;
    char first[16];
    char last[16];
};

static void take_id(void *context, struct slice id)
{
    struct ids *ids = context;
    snprintf(ids->count == 0 ? ids->first : ids->last, 16, "%.*s", (int)id.length, id.bytes);
    ids->count++;
}

static void test_recent(void **state)
{
    struct fixture *fixture = *state;
    static struct ledger_row rows[10];
    assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
    for (int i = 0; i < 10; i++) {
        rows[i] = make_row(i);
        assert_int_equal(ledger_rows_add(fixture->rows, &rows[i]), STATUS_OK);
    }
    assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
    struct ids ids = {0};
    assert_int_equal(ledger_rows_recent(fixture->rows, 4, &ids, take_id), STATUS_OK);
    assert_int_equal(ids.count, 4);
    assert_string_equal(ids.first, "req_6");
    assert_string_equal(ids.last, "req_9");
    ids = (struct ids){0};
    assert_int_equal(ledger_rows_recent(fixture->rows, 100, &ids, take_id), STATUS_OK);
    assert_int_equal(ids.count, 10);
}

/* The log grows until it is checkpointed, and then is written from its beginning again. */
static void test_checkpoint(void **state)
{
    struct fixture *fixture = *state;
    for (int by_writer = 0; by_writer < 2; by_writer++) {
        int before = 0;
        for (int i = 0; i < 50; i++) {
            struct ledger_row row = make_row(i);
            assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
            assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
            assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
            assert_true(ledger_rows_wal_pages(fixture->rows) > before);
            before = ledger_rows_wal_pages(fixture->rows);
        }
        assert_true(before > 100);
        assert_int_equal(ledger_rows_checkpoint(fixture->rows, by_writer == 1), STATUS_OK);
        struct ledger_row row = make_row(50);
        assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
        assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
        assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
        assert_true(ledger_rows_wal_pages(fixture->rows) < 20);
        assert_int_equal(ledger_rows_checkpoint(fixture->rows, by_writer == 0), STATUS_OK);
    }
    assert_int_equal(query(fixture, "select count(*) from requests"), 102);
}

/* What a person with a database shell does. Needs a process of its own: SQLite knows what this one
 * holds. */
static int visit(const char *path)
{
    sqlite3 *connection;
    bool is_fine = sqlite3_open(path, &connection) == SQLITE_OK &&
                   sqlite3_exec(connection, "select * from requests", NULL, NULL, NULL) == 0;
    return sqlite3_close(connection) == SQLITE_OK && is_fine ? 0 : 1;
}

/* The last one to leave removes the log. A visitor must not take himself for the last. */
static void test_visitor_leaves_log(void **state)
{
    struct fixture *fixture = *state;
    char log_path[128];
    struct ledger_row row = make_row(1);
    snprintf(log_path, sizeof log_path, "%s-wal", fixture->path);
    assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
    assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
    assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
    assert_int_equal(access(log_path, F_OK), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_ledger_rows", "visit", fixture->path, (char *)NULL);
        _exit(2);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(access(log_path, F_OK), 0);
}

/* --- expiry --- */

static void add_at(struct fixture *fixture, const int64_t *at_us, size_t count)
{
    static struct ledger_row row;
    for (size_t i = 0; i < count; i++) {
        row = make_row(1);
        row.at_us = at_us[i];
        assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
        assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
        assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
    }
}

static void test_old_rows_go(void **state)
{
    struct fixture *fixture = *state;
    static const int64_t at_us[] = {10, 20, 9999, 30, 40, 50, 15, 60};
    struct ledger_expiry expiry = {.cutoff_us = INT64_MIN, .now_us = 1000};
    assert_int_equal(ledger_rows_expire(fixture->rows, &expiry), STATUS_OK); /* no rows at all */
    assert_true(expiry.is_done);
    assert_int_equal(expiry.front_us, INT64_MAX);
    add_at(fixture, at_us, sizeof at_us / sizeof at_us[0]);
    assert_int_equal(ledger_rows_expire(fixture->rows, &expiry), STATUS_OK);
    assert_true(expiry.is_done);
    assert_int_equal(expiry.front_us, 10);
    assert_int_equal(expiry.deleted, 0);
    /* 10, 20 and 30 go; 9999 is of the future and stays; 40 is at the cutoff and ends the walk. */
    expiry.cutoff_us = 40;
    assert_int_equal(ledger_rows_expire(fixture->rows, &expiry), STATUS_OK);
    assert_true(expiry.is_done);
    assert_int_equal(expiry.front_us, 40);
    assert_int_equal(expiry.deleted, 3);
    assert_int_equal(query(fixture, "select count(*) from requests"), 5);
    assert_int_equal(query(fixture, "select min(at_us) from requests where at_us <> 15"), 40);
    /* The newest row stays whatever its age: the next sequence is told from it. */
    expiry.cutoff_us = 1000;
    assert_int_equal(ledger_rows_expire(fixture->rows, &expiry), STATUS_OK);
    assert_true(expiry.is_done);
    assert_int_equal(expiry.deleted, 6);
    assert_int_equal(query(fixture, "select sum(at_us) from requests"), 9999 + 60);
    assert_int_equal(query(fixture, "select sum(requests) from usage_minutes"), 8); /* for ever */
}

/* Rows that a wrong clock took for the future's go like others once it is set right; and one that
 * is of the future goes when its time has come and gone. */
static void test_rows_of_the_future_go_later(void **state)
{
    struct fixture *fixture = *state;
    static const int64_t at_us[] = {5000, 3000, 3100, 9000, 3200, 3300};
    add_at(fixture, at_us, sizeof at_us / sizeof at_us[0]);
    struct ledger_expiry expiry = {.cutoff_us = -1000, .now_us = 1000}; /* far behind */
    static const struct {
        int64_t now_us;
        int64_t cutoff_us;
        int64_t front_us;
        uint64_t deleted; /* in all */
    } looks[] = {
        {1000, -1000, INT64_MAX, 0}, {2999, 0, INT64_MAX, 0}, {3000, 0, 3000, 0},
        {3150, 2000, 3000, 0},       {5500, 3050, 5000, 0},   {8000, 5000, 5000, 0},
        {8500, 5001, INT64_MAX, 4},  {9001, 6000, 9000, 4},   {9999, 9001, INT64_MAX, 5},
    };
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        expiry.now_us = looks[i].now_us;
        expiry.cutoff_us = looks[i].cutoff_us;
        assert_int_equal(ledger_rows_expire(fixture->rows, &expiry), STATUS_OK);
        assert_true(expiry.is_done);
        assert_int_equal(expiry.front_us, looks[i].front_us);
        assert_int_equal(expiry.deleted, looks[i].deleted);
    }
    assert_int_equal(query(fixture, "select sum(at_us) from requests"), 3300); /* the newest */
}

/* More than two batches of rows that go and rows that lie between; the writer is at it, too. */
static void test_old_rows_go_in_batches(void **state)
{
    struct fixture *fixture = *state;
    static int64_t at_us[2 * LEDGER_ROWS_EXPIRE + 2];
    enum { ROWS = sizeof at_us / sizeof at_us[0] };
    for (size_t i = 0; i < ROWS; i++)
        at_us[i] = i % 2 == 0 ? 10 : 5000;
    add_at(fixture, at_us, ROWS);
    struct ledger_expiry expiry = {.cutoff_us = 100, .now_us = 1000};
    assert_int_equal(ledger_rows_expire(fixture->rows, &expiry), STATUS_OK);
    assert_false(expiry.is_done);
    assert_int_equal(expiry.deleted, LEDGER_ROWS_EXPIRE / 2);
    /* While the writer is in a transaction a deletion waits, fails, and passes no row over. */
    static struct ledger_row row;
    row = make_row(2);
    assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
    assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
    assert_int_equal(ledger_rows_expire(fixture->rows, &expiry), STATUS_BUSY);
    assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
    for (expiry.is_done = false; !expiry.is_done;)
        assert_int_equal(ledger_rows_expire(fixture->rows, &expiry), STATUS_OK);
    assert_int_equal(expiry.deleted, ROWS / 2);
    assert_int_equal(query(fixture, "select count(*) from requests where at_us = 10"), 0);
    assert_int_equal(query(fixture, "select count(*) from requests"), ROWS / 2 + 1);
}

/* A file of an earlier schema (1: the first release's; 2: with the index by
 * tenant; 3: with the edge's name) with a row. */
static void make_earlier_file(const struct fixture *fixture, int schema)
{
    assert_int_equal(unlink(fixture->path), 0);
    sqlite3 *connection;
    assert_int_equal(sqlite3_open(fixture->path, &connection), SQLITE_OK);
    const char *sql =
        "create table schema_steps (number integer primary key, applied_at_s integer not null) "
        "strict;"
        "create table requests (id integer primary key, at_us integer not null, request_id text "
        "not "
        "null, tenant_id text not null, key_id text not null, model text not null, route text not "
        "null, service_class text not null, finish text not null, http_code integer not null, "
        "prompt_tokens integer not null, cached_tokens integer not null, completion_tokens integer "
        "not null, is_estimated integer not null, queue_us integer not null, prefill_us integer "
        "not null, decode_us integer not null, total_us integer not null) strict;"
        "create table usage_minutes (minute integer not null, tenant_id text not null, key_id text "
        "not null, model text not null, service_class text not null, requests integer not null, "
        "prompt_tokens integer not null, cached_tokens integer not null, completion_tokens integer "
        "not null, primary key (minute, tenant_id, key_id, model, service_class)) strict, without "
        "rowid;"
        "insert into schema_steps values (1, 1);"
        "insert into requests values ((1 << 48) + 7, 60000000, 'req_7', 'tnt', 'key', 'm', '/v1', "
        "'standard', 'stop', 200, 5, 0, 6, 0, 1, 2, 3, 4);"
        "insert into usage_minutes values (1, 'tnt', 'key', 'm', 'standard', 1, 5, 0, 6);";
    const char *second = "create index usage_minutes_tenant on usage_minutes (tenant_id, minute);"
                         "insert into schema_steps values (2, 2);";
    const char *third = "create table edges (id integer primary key, name text not null) strict;"
                        "insert into edges values (1, '0123456789abcdef');"
                        "insert into schema_steps values (3, 3);";
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    if (schema >= 2)
        assert_int_equal(sqlite3_exec(connection, second, NULL, NULL, NULL), SQLITE_OK);
    if (schema >= 3)
        assert_int_equal(sqlite3_exec(connection, third, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(connection);
}

/* Rows and sums are there and have cost nothing, new ones go on where they were. */
static void test_files_of_earlier_schemas(void **state)
{
    struct fixture *fixture = *state;
    for (int schema = 1; schema <= 3; schema++) { /* schema 4 adds a column in the same way */
        ledger_rows_close(fixture->rows);
        make_earlier_file(fixture, schema);
        assert_int_equal(ledger_rows_open(&fixture->rows, fixture->path, false), STATUS_OK);
        static struct ledger_row row;
        row = make_row(3);
        assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
        assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
        assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
        assert_int_equal(query(fixture, "select max(id) - (1 << 48) from requests"), 8);
        assert_int_equal(query(fixture, "select sum(completion_tokens) from usage_minutes indexed "
                                        "by usage_minutes_tenant where tenant_id = 'tnt'"),
                         6 + 3);
        assert_int_equal(query(fixture, "select sum(cost_nano) from usage_minutes"), 1000000007);
        assert_int_equal(query(fixture, "select sum(cost_nano) from requests where id = (1 << 48) "
                                        "+ 7"),
                         0);
        assert_int_equal(query(fixture, "select length(name) from edges"), 16);
        assert_int_equal(query(fixture, "select max(number) from schema_steps"), 5);
    }
}

/* What a newer version has written is not touched. */
static void test_file_of_a_newer_schema(void **state)
{
    struct fixture *fixture = *state;
    struct ledger_rows *rows;
    assert_int_equal(query(fixture, "insert into schema_steps values (6, 0) returning number"), 6);
    assert_int_equal(ledger_rows_open(&rows, fixture->path, false), STATUS_CONFLICT);
    assert_null(rows);
    assert_int_equal(query(fixture, "select count(*) from schema_steps"), 6);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "visit") == 0)
        return visit(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_old_rows_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows_of_the_future_go_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_old_rows_go_in_batches, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_of_earlier_schemas, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_of_a_newer_schema, setup, teardown),
        cmocka_unit_test_setup_teardown(test_costs_beyond_64_bits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_columns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums_of_many_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(test_roll_back_gives_sequences_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_recent, setup, teardown),
        cmocka_unit_test_setup_teardown(test_checkpoint, setup, teardown),
        cmocka_unit_test_setup_teardown(test_visitor_leaves_log, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
