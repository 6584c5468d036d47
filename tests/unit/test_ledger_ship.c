/* ledger_ship: rows in order and their gaps, sums of days as of one commit, the edge's name. */
#include "auth/ledger/ledger_ship.h"

#include "tests/unit/base_kit.h"

#include <sqlite3.h>

#include "auth/ledger/ledger_rows.h"

struct fixture {
    char folder[64];
    char path[96];
    struct ledger_rows *rows;
    struct ledger_ship *ship;
};

enum { DAY_FIRST = 20000, DAYS = 3, TENANTS = 3, ROWS = 500 };

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    kit_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof fixture->path, "%s/ledger.db", fixture->folder);
    assert_int_equal(ledger_rows_open(&fixture->rows, fixture->path, false), STATUS_OK);
    assert_int_equal(ledger_ship_open(&fixture->ship, fixture->path), STATUS_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    ledger_ship_close(fixture->ship);
    ledger_rows_close(fixture->rows);
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

/* Row i: days, tenants, models and classes take turns. */
static struct ledger_row row_of(int i)
{
    struct ledger_row row = {.at_us = (INT64_C(86400) * (DAY_FIRST + i % DAYS) + i) * 1000000 + 7,
                             .http_code = 200 + i % 2,
                             .prompt_tokens = (uint32_t)i + 10,
                             .cached_tokens = (uint32_t)i % 7,
                             .completion_tokens = UINT32_MAX - (uint32_t)i,
                             .is_estimated = i % 5 == 0,
                             .cost_nano = INT64_C(5000000000000001) * i};
    snprintf(row.request_id, sizeof row.request_id, "req_%d", i);
    snprintf(row.tenant_id, sizeof row.tenant_id, "tnt_%d", i / 2 % TENANTS);
    snprintf(row.key_id, sizeof row.key_id, "key_%d", i % 4);
    snprintf(row.model, sizeof row.model, "%s", i % 4 < 2 ? "small" : "");
    snprintf(row.service_class, sizeof row.service_class, "%s", i % 8 < 4 ? "batch" : "standard");
    snprintf(row.finish, sizeof row.finish, "stop");
    return row;
}

static void add(struct fixture *fixture, int first, int count)
{
    assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
    struct ledger_row *rows = calloc((size_t)count, sizeof *rows); /* alive until the end */
    for (int i = 0; i < count; i++) {
        rows[i] = row_of(first + i);
        assert_int_equal(ledger_rows_add(fixture->rows, &rows[i]), STATUS_OK);
    }
    assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
    free(rows);
}

static void run_sql(struct fixture *fixture, const char *sql)
{
    sqlite3 *connection;
    assert_int_equal(sqlite3_open(fixture->path, &connection), SQLITE_OK);
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(connection);
}

static void check_row(const struct ledger_row *row)
{
    struct ledger_row wanted = row_of((int)row->sequence - 1);
    assert_int_equal(row->at_us, wanted.at_us);
    assert_string_equal(row->tenant_id, wanted.tenant_id);
    assert_string_equal(row->key_id, wanted.key_id);
    assert_string_equal(row->model, wanted.model);
    assert_string_equal(row->service_class, wanted.service_class);
    assert_string_equal(row->finish, wanted.finish);
    assert_int_equal(row->http_code, wanted.http_code);
    assert_int_equal(row->prompt_tokens, wanted.prompt_tokens);
    assert_int_equal(row->cached_tokens, wanted.cached_tokens);
    assert_int_equal(row->completion_tokens, wanted.completion_tokens);
    assert_int_equal(row->is_estimated, wanted.is_estimated);
    assert_int_equal(row->cost_nano, wanted.cost_nano);
}

/* All rows behind `after`, `capacity` at a time; the last one's sequence. */
static int64_t read_all(struct fixture *fixture, int64_t after, size_t capacity, int *gaps)
{
    struct ledger_row rows[64];
    size_t count = 0;
    bool is_gapped = false;
    assert_true(capacity <= 64);
    for (;;) {
        assert_int_equal(ledger_ship_rows(fixture->ship, after, rows, capacity, &count, &is_gapped),
                         STATUS_OK);
        if (count == 0)
            return after;
        *gaps += is_gapped;
        assert_true(is_gapped ? rows[0].sequence > after + 1 : rows[0].sequence == after + 1);
        for (size_t i = 0; i < count; i++) {
            check_row(&rows[i]);
            assert_int_equal(rows[i].sequence, rows[0].sequence + (int64_t)i);
        }
        after = rows[count - 1].sequence;
    }
}

static void test_rows_come_in_order(void **state)
{
    struct fixture *fixture = *state;
    int64_t first = -1;
    int64_t last = -1;
    int gaps = 0;
    assert_int_equal(ledger_ship_span(fixture->ship, &first, &last), STATUS_OK);
    assert_int_equal(first, 0);
    assert_int_equal(last, 0);
    assert_int_equal(read_all(fixture, 0, 8, &gaps), 0);
    add(fixture, 0, ROWS);
    assert_int_equal(ledger_ship_span(fixture->ship, &first, &last), STATUS_OK);
    assert_int_equal(first, 1);
    assert_int_equal(last, ROWS);
    for (size_t capacity = 1; capacity <= 64; capacity += 21)
        assert_int_equal(read_all(fixture, 0, capacity, &gaps), ROWS);
    assert_int_equal(read_all(fixture, ROWS - 3, 64, &gaps), ROWS);
    assert_int_equal(gaps, 0);
}

static void test_gaps_are_told(void **state)
{
    struct fixture *fixture = *state;
    int gaps = 0;
    add(fixture, 0, ROWS);
    run_sql(fixture, "delete from requests where id & 0xffffff <= 100");
    run_sql(fixture, "delete from requests where id & 0xffffff in (200, 201, 300)");
    assert_int_equal(read_all(fixture, 0, 64, &gaps), ROWS);
    assert_int_equal(gaps, 3);
    gaps = 0;
    assert_int_equal(read_all(fixture, 100, 64, &gaps), ROWS);
    assert_int_equal(gaps, 2);
}

struct sums {
    int64_t numbers[TENANTS][2][2][5]; /* tenant, model, class → requests, three tokens, cost */
    int calls;
    char last[LIMIT_ID_BYTES];
    int fails_at;
};

static enum status take(void *context, const struct ledger_ship_sum *sum)
{
    struct sums *sums = context;
    if (++sums->calls == sums->fails_at)
        FAIL(STATUS_CANCELLED, "enough");
    assert_true(strcmp(sums->last, sum->tenant_id) <= 0);
    snprintf(sums->last, sizeof sums->last, "%s", sum->tenant_id);
    int64_t *to =
        sums->numbers[sum->tenant_id[4] - '0'][sum->model[0] == 's'][sum->service_class[0] == 's'];
    const int64_t numbers[] = {sum->requests, sum->prompt_tokens, sum->cached_tokens,
                               sum->completion_tokens, sum->cost_nano};
    memcpy(to, numbers, sizeof numbers);
    return STATUS_OK;
}

/* What rows [0, count) are on a day. */
static void own_sums(struct sums *sums, int day, int count)
{
    for (int i = 0; i < count; i++) {
        struct ledger_row row = row_of(i);
        if (i % DAYS != day)
            continue;
        int64_t *to =
            sums->numbers[row.tenant_id[4] - '0'][row.model[0] == 's'][row.service_class[0] == 's'];
        to[0] += 1;
        to[1] += row.prompt_tokens;
        to[2] += row.cached_tokens;
        to[3] += row.completion_tokens;
        if (__builtin_add_overflow(to[4], row.cost_nano, &to[4]))
            to[4] = INT64_MAX;
    }
}

static void test_sums_are_those_of_one_commit(void **state)
{
    struct fixture *fixture = *state;
    int64_t sequence = -1;
    assert_int_equal(ledger_ship_begin(fixture->ship, &sequence), STATUS_OK);
    assert_int_equal(sequence, 0);
    ledger_ship_end(fixture->ship);
    add(fixture, 0, ROWS);
    run_sql(fixture, "delete from requests where id & 0xffffff < 400"); /* sums stay */
    assert_int_equal(ledger_ship_begin(fixture->ship, &sequence), STATUS_OK);
    assert_int_equal(sequence, ROWS);
    add(fixture, ROWS, 50);
    int64_t day = 0;
    for (int i = 0; i < DAYS; i++) {
        struct sums sums = {.calls = 0};
        struct sums wanted = {.calls = 0};
        assert_int_equal(ledger_ship_day(fixture->ship, day, &day), STATUS_OK);
        assert_int_equal(day, DAY_FIRST + i);
        assert_int_equal(ledger_ship_sums(fixture->ship, day, "", &sums, take), STATUS_OK);
        own_sums(&wanted, i, ROWS);
        assert_memory_equal(sums.numbers, wanted.numbers, sizeof wanted.numbers);
        day++;
    }
    assert_int_equal(ledger_ship_day(fixture->ship, day, &day), STATUS_OK);
    assert_int_equal(day, INT64_MAX);
    ledger_ship_end(fixture->ship);
    assert_int_equal(ledger_ship_begin(fixture->ship, &sequence), STATUS_OK);
    assert_int_equal(sequence, ROWS + 50);
    ledger_ship_end(fixture->ship);
}

static void test_one_tenants_sums(void **state)
{
    struct fixture *fixture = *state;
    add(fixture, 0, ROWS);
    struct sums wanted = {.calls = 0};
    own_sums(&wanted, 1, ROWS);
    struct sums sums = {.calls = 0};
    assert_int_equal(ledger_ship_sums(fixture->ship, DAY_FIRST + 1, "tnt_2", &sums, take),
                     STATUS_OK);
    assert_true(sums.calls > 0);
    assert_memory_equal(sums.numbers[2], wanted.numbers[2], sizeof wanted.numbers[2]);
    assert_int_equal(sums.numbers[0][0][0][0], 0);
    sums = (struct sums){.fails_at = 2};
    assert_int_equal(ledger_ship_sums(fixture->ship, DAY_FIRST, "", &sums, take), STATUS_CANCELLED);
    assert_int_equal(sums.calls, 2);
}

static void test_an_edge_keeps_its_name(void **state)
{
    struct fixture *fixture = *state;
    char name[LEDGER_SHIP_EDGE_BYTES];
    snprintf(name, sizeof name, "%s", ledger_ship_edge(fixture->ship));
    assert_int_equal(strlen(name), 16);
    ledger_ship_close(fixture->ship);
    assert_int_equal(ledger_ship_open(&fixture->ship, fixture->path), STATUS_OK);
    assert_string_equal(ledger_ship_edge(fixture->ship), name);
    void *other = NULL;
    setup(&other);
    assert_string_not_equal(ledger_ship_edge(((struct fixture *)other)->ship), name);
    teardown(&other);
    struct ledger_ship *none;
    run_sql(fixture, "delete from edges");
    assert_int_equal(ledger_ship_open(&none, fixture->path), STATUS_CORRUPT);
    assert_null(none);
}

/* The same wherever and whenever it is asked for; another row's is another. */
static void test_prints(void **state)
{
    struct fixture *fixture = *state;
    uint64_t prints[4];
    add(fixture, 0, 2);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ledger_ship_print(fixture->ship, i, &prints[i]), STATUS_OK);
    assert_true(prints[0] == 0 && prints[3] == 0);          /* there are no such rows */
    assert_true(prints[1] == UINT64_C(0x4162bdfe6a40a9ad)); /* as banyan:shipped has kept it */
    assert_true(prints[2] != 0 && prints[2] != prints[1]);
    run_sql(fixture, "update requests set request_id = 'req_x' where id & 0xffff = 2");
    assert_int_equal(ledger_ship_print(fixture->ship, 2, &prints[3]), STATUS_OK);
    assert_true(prints[3] != 0 && prints[3] != prints[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_rows_come_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gaps_are_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sums_are_those_of_one_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_tenants_sums, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_edge_keeps_its_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_prints, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
