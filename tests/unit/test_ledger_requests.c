/* ledger_requests: single rows page after page, by time and words, in both orders; short pages. */
#include "auth/ledger/ledger_requests.h"

#include "auth/ledger/ledger_rows.h"
#include "tests/unit/base_kit.h"

#include <sqlite3.h>

struct fixture {
    char folder[64];
    char path[96];
    struct ledger_rows *rows;
    sqlite3 *connection;
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    kit_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof fixture->path, "%s/ledger.db", fixture->folder);
    assert_int_equal(ledger_rows_open(&fixture->rows, fixture->path, false), STATUS_OK);
    assert_int_equal(sqlite3_open(fixture->path, &fixture->connection), SQLITE_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    sqlite3_close(fixture->connection);
    ledger_rows_close(fixture->rows);
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

/* Row i ends at second i, but for every 10th, whose clock was a day ahead. */
static struct ledger_row row_of(int i)
{
    struct ledger_row row = {.at_us = (i % 10 == 3 ? 86400 + i : i) * INT64_C(1000000),
                             .http_code = 200,
                             .prompt_tokens = (uint32_t)i,
                             .cached_tokens = 1,
                             .completion_tokens = 2,
                             .cost_nano = INT64_C(5000000000) + i,
                             .is_estimated = i % 2 == 0,
                             .queue_us = 3,
                             .prefill_us = 4,
                             .decode_us = 5,
                             .total_us = 6};
    snprintf(row.request_id, sizeof row.request_id, "req_%d", i);
    snprintf(row.tenant_id, sizeof row.tenant_id, "tnt_%d", i % 3);
    snprintf(row.key_id, sizeof row.key_id, "key_%d", i % 5);
    snprintf(row.model, sizeof row.model, "m%d", i % 2);
    snprintf(row.route, sizeof row.route, "/v1/completions");
    snprintf(row.service_class, sizeof row.service_class, "%s", i % 7 == 0 ? "batch" : "standard");
    snprintf(row.finish, sizeof row.finish, "stop");
    return row;
}

enum { ROWS = 200 };

static void fill(struct fixture *fixture)
{
    static struct ledger_row rows[ROWS];
    assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
    for (int i = 0; i < ROWS; i++) {
        rows[i] = row_of(i);
        assert_int_equal(ledger_rows_add(fixture->rows, &rows[i]), STATUS_OK);
    }
    assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
}

static bool list_has(const struct ledger_usage_words *words, const char *text)
{
    for (uint32_t i = 0; i < words->count; i++) {
        if (strcmp(words->words[i], text) == 0)
            return true;
    }
    return words->count == 0;
}

static bool is_wanted(const struct ledger_requests *requests, const struct ledger_row *row)
{
    const struct ledger_usage_filter *filter = requests->filter;
    return row->at_us >= requests->start_us && row->at_us < requests->end_us &&
           (filter == NULL ||
            (list_has(&filter->tenants, row->tenant_id) && list_has(&filter->keys, row->key_id) &&
             list_has(&filter->models, row->model) &&
             list_has(&filter->classes, row->service_class)));
}

static void check_row(const struct ledger_row *seen, const struct ledger_row *row)
{
    assert_true(seen->at_us == row->at_us);
    assert_true(seen->cost_nano == row->cost_nano);
    assert_string_equal(seen->tenant_id, row->tenant_id);
    assert_string_equal(seen->key_id, row->key_id);
    assert_string_equal(seen->model, row->model);
    assert_string_equal(seen->route, row->route);
    assert_string_equal(seen->service_class, row->service_class);
    assert_string_equal(seen->finish, row->finish);
    assert_int_equal(seen->http_code, row->http_code);
    assert_int_equal(seen->prompt_tokens, row->prompt_tokens);
    assert_int_equal(seen->cached_tokens, row->cached_tokens);
    assert_int_equal(seen->completion_tokens, row->completion_tokens);
    assert_int_equal(seen->is_estimated, row->is_estimated);
    assert_int_equal(seen->queue_us, row->queue_us);
    assert_int_equal(seen->prefill_us, row->prefill_us);
    assert_int_equal(seen->decode_us, row->decode_us);
    assert_int_equal(seen->total_us, row->total_us);
}

/* All pages together are the rows that a walk over all of them finds, in the order. */
static void check(struct fixture *fixture, struct ledger_requests requests)
{
    int step = requests.is_descending ? -1 : 1;
    int next = requests.is_descending ? ROWS - 1 : 0;
    do {
        assert_int_equal(ledger_requests_read(fixture->connection, &requests), STATUS_OK);
        assert_true(requests.count <= requests.limit);
        assert_true(requests.count == requests.limit || !requests.has_more);
        for (size_t i = 0; i < requests.count; i++, next += step) {
            struct ledger_row row = row_of(next);
            while (!is_wanted(&requests, &row)) {
                next += step;
                row = row_of(next);
            }
            assert_string_equal(requests.rows[i].request_id, row.request_id);
            assert_true(requests.rows[i].sequence == (INT64_C(1) << 48) + next + 1);
            check_row(&requests.rows[i], &row);
        }
        requests.after = requests.last;
        ledger_requests_deinit(&requests);
    } while (requests.has_more);
    for (; next >= 0 && next < ROWS; next += step) {
        struct ledger_row row = row_of(next);
        assert_false(is_wanted(&requests, &row));
    }
}

static void test_pages(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    static const uint32_t limits[] = {1, 7, ROWS - 1, ROWS, ROWS + 1, LIMIT_USAGE_REQUESTS};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        for (int is_descending = 0; is_descending < 2; is_descending++)
            check(fixture, (struct ledger_requests){.end_us = INT64_MAX,
                                                    .limit = limits[i],
                                                    .is_descending = is_descending != 0});
    }
}

/* Rows of a clock that was wrong stand among the others and are found by the time they have. */
static void test_times_and_words(void **state)
{
    struct fixture *fixture = *state;
    fill(fixture);
    struct ledger_usage_filter filter = {.tenants = {1, {"tnt_1"}}};
    for (int turn = 0; turn < 2; turn++) {
        check(fixture,
              (struct ledger_requests){
                  .start_us = 20000000, .end_us = 100000000, .limit = 9, .filter = &filter});
        check(fixture, (struct ledger_requests){.start_us = INT64_C(86400000000),
                                                .end_us = INT64_MAX,
                                                .limit = 3,
                                                .filter = &filter,
                                                .is_descending = true});
        filter = (struct ledger_usage_filter){.tenants = {2, {"tnt_0", "tnt_2"}},
                                              .keys = {1, {"key_3"}},
                                              .models = {2, {"m0", "m1"}},
                                              .classes = {1, {"standard"}}};
    }
}

/* A page looks at so many rows and no more, and says where it stopped. */
static void test_a_page_that_finds_nothing(void **state)
{
    struct fixture *fixture = *state;
    static struct ledger_row row;
    int left = 2 * LIMIT_USAGE_SCAN + 1;
    row = row_of(1);
    while (left > 0) {
        assert_int_equal(ledger_rows_begin(fixture->rows), STATUS_OK);
        for (int i = 0; i < 20000 && left > 0; i++, left--)
            assert_int_equal(ledger_rows_add(fixture->rows, &row), STATUS_OK);
        assert_int_equal(ledger_rows_end(fixture->rows, true), STATUS_OK);
    }
    struct ledger_requests requests = {.start_us = 0, .end_us = 1, .limit = 10};
    for (int page = 1; page <= 3; page++) {
        assert_int_equal(ledger_requests_read(fixture->connection, &requests), STATUS_OK);
        assert_int_equal(requests.count, 0);
        assert_int_equal(requests.has_more, page < 3);
        assert_true(requests.last == (INT64_C(1) << 48) + (page < 3 ? page * LIMIT_USAGE_SCAN
                                                                    : 2 * LIMIT_USAGE_SCAN + 1));
        requests.after = requests.last;
        ledger_requests_deinit(&requests);
    }
}

static void test_wrong_limits(void **state)
{
    struct fixture *fixture = *state;
    struct ledger_requests requests = {.end_us = 1};
    assert_int_equal(ledger_requests_read(fixture->connection, &requests), STATUS_INVALID);
    requests.limit = LIMIT_USAGE_REQUESTS + 1;
    assert_int_equal(ledger_requests_read(fixture->connection, &requests), STATUS_INVALID);
    assert_null(requests.rows);
}

int main(void)
{
#define WITH_FILE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_FILE(test_pages),
        WITH_FILE(test_times_and_words),
        WITH_FILE(test_a_page_that_finds_nothing),
        WITH_FILE(test_wrong_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
