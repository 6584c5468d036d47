/* ledger_usage: sums by bucket and group against sums that the test keeps itself; bounds. */
#include "auth/ledger/ledger.h"
#include "auth/ledger/ledger_usage.h"

#include "tests/unit/base_kit.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <time.h>

struct fixture {
    char folder[64];
    char path[96];
    struct ledger *ledger;
    struct ledger_usage *usage;
};

static int64_t price_of(void *context, const struct ledger_row *row)
{
    (void)context;
    return INT64_C(1000000) * row->cached_tokens + 7;
}

enum { DAY_S = 86400, START_S = 1700006400 /* a midnight, UTC */ };

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    kit_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof fixture->path, "%s/ledger.db", fixture->folder);
    assert_int_equal(ledger_open(&fixture->ledger, &(struct ledger_options){.path = fixture->path,
                                                                            .price = price_of}),
                     STATUS_OK);
    assert_int_equal(ledger_usage_open(&fixture->usage, fixture->path), STATUS_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    ledger_usage_close(fixture->usage);
    ledger_close(fixture->ledger);
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

/* --- asking and waiting --- */

struct asked {
    struct ledger_usage_task task; /* first */
    atomic_int done;
};

static void on_done(struct ledger_usage_task *task)
{
    atomic_store(&((struct asked *)task)->done, 1);
}

static enum status ask(struct fixture *fixture, struct asked *asked)
{
    asked->task.done = on_done;
    atomic_store(&asked->done, 0);
    assert_int_equal(ledger_usage_ask(fixture->usage, &asked->task), STATUS_OK);
    for (int i = 0; i < 20000 && atomic_load(&asked->done) == 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(atomic_load(&asked->done), 1);
    return asked->task.note.status;
}

/* --- rows --- */

static const char *const models[] = {"small", "large"};
static const char *const classes[] = {"standard", "batch"};

/* Row i: minute, tenant, key, model and class by i; tokens by i. */
static struct ledger_row row_of(int i)
{
    struct ledger_row row = {.at_us = (START_S + INT64_C(47) * i) * 1000000 + 999999,
                             .http_code = 200,
                             .prompt_tokens = (uint32_t)i + 10,
                             .cached_tokens = (uint32_t)i,
                             .completion_tokens = (uint32_t)i % 11};
    row.cost_nano = INT64_C(1000000) * i + 7; /* by price_of; what a caller says does not count */
    snprintf(row.request_id, sizeof row.request_id, "req_%d", i);
    snprintf(row.tenant_id, sizeof row.tenant_id, "tnt_%d", i % 3);
    snprintf(row.key_id, sizeof row.key_id, "key_%d_%d", i % 3, i % 4);
    snprintf(row.model, sizeof row.model, "%s", models[i % 2]);
    snprintf(row.service_class, sizeof row.service_class, "%s", classes[i / 2 % 2]);
    return row;
}

static atomic_int committed;
static void on_committed(void *context, enum status status, int64_t cost_nano)
{
    (void)context;
    (void)cost_nano;
    assert_int_equal(status, STATUS_OK);
    atomic_fetch_add(&committed, 1);
}

static void append(struct fixture *fixture, int count)
{
    atomic_store(&committed, 0);
    for (int i = 0; i < count; i++) {
        struct ledger_row row = row_of(i);
        row.cost_nano = -1;
        assert_int_equal(ledger_append(fixture->ledger, &row, on_committed, NULL), STATUS_OK);
    }
    for (int i = 0; i < 20000 && atomic_load(&committed) < count; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(atomic_load(&committed), count);
}

static bool row_matches(const struct ledger_usage_query *query, const struct ledger_usage_row *sum,
                        const struct ledger_row *row)
{
    int64_t bucket = row->at_us / 1000000 / query->width_s * query->width_s;
    uint32_t group = query->group_by;
    return bucket == sum->start_s &&
           (query->tenant_id[0] == '\0' || strcmp(query->tenant_id, row->tenant_id) == 0) &&
           (query->key_id[0] == '\0' || strcmp(query->key_id, row->key_id) == 0) &&
           (query->model[0] == '\0' || strcmp(query->model, row->model) == 0) &&
           (query->service_class[0] == '\0' ||
            strcmp(query->service_class, row->service_class) == 0) &&
           ((group & LEDGER_USAGE_TENANT) == 0 || strcmp(sum->tenant_id, row->tenant_id) == 0) &&
           ((group & LEDGER_USAGE_KEY) == 0 || strcmp(sum->key_id, row->key_id) == 0) &&
           ((group & LEDGER_USAGE_MODEL) == 0 || strcmp(sum->model, row->model) == 0) &&
           ((group & LEDGER_USAGE_CLASS) == 0 ||
            strcmp(sum->service_class, row->service_class) == 0);
}

/* Every result is the sum of the rows it names; together they are all rows of the range. */
static void check_page(const struct ledger_usage_query *query, const struct ledger_usage_page *page,
                       int count, int64_t wanted_requests)
{
    int64_t requests = 0;
    for (size_t i = 0; i < page->count; i++) {
        const struct ledger_usage_row *sum = &page->rows[i];
        int64_t rows = 0;
        int64_t prompt = 0;
        int64_t cached = 0;
        int64_t completion = 0;
        int64_t cost = 0;
        for (int j = 0; j < count; j++) {
            struct ledger_row row = row_of(j);
            if (!row_matches(query, sum, &row))
                continue;
            rows++;
            prompt += row.prompt_tokens;
            cached += row.cached_tokens;
            completion += row.completion_tokens;
            cost += row.cost_nano;
        }
        assert_true(rows > 0);
        assert_int_equal(sum->requests, rows);
        assert_int_equal(sum->prompt_tokens, prompt);
        assert_int_equal(sum->cached_tokens, cached);
        assert_int_equal(sum->completion_tokens, completion);
        assert_int_equal(sum->cost_nano, cost);
        assert_true(i == 0 || sum->start_s >= page->rows[i - 1].start_s);
        requests += rows;
    }
    assert_int_equal(requests, wanted_requests);
}

static void test_sums_by_every_group(void **state)
{
    struct fixture *fixture = *state;
    enum { ROWS = 600 }; /* 470 minutes */
    append(fixture, ROWS);
    static const int64_t widths[] = {60, 3600, DAY_S};
    for (size_t width = 0; width < 3; width++) {
        for (uint32_t group = 0; group < 16; group++) {
            struct asked asked = {.task.query = {.start_s = START_S,
                                                 .width_s = widths[width],
                                                 .buckets = width == 0   ? 1440
                                                            : width == 1 ? 24
                                                                         : 1,
                                                 .group_by = group}};
            assert_int_equal(ask(fixture, &asked), STATUS_OK);
            assert_int_equal(asked.task.page.end_s, START_S + DAY_S);
            check_page(&asked.task.query, &asked.task.page, ROWS, ROWS);
            if (width == 2 && group == 0)
                assert_int_equal(asked.task.page.count, 1);
            if (width == 2 && group == LEDGER_USAGE_TENANT)
                assert_int_equal(asked.task.page.count, 3);
            ledger_usage_page_deinit(&asked.task.page);
        }
    }
}

static void test_filters_and_ranges(void **state)
{
    struct fixture *fixture = *state;
    enum { ROWS = 600 };
    append(fixture, ROWS);
    struct asked asked = {
        .task.query = {
            .start_s = START_S, .width_s = DAY_S, .buckets = 31, .group_by = LEDGER_USAGE_KEY}};
    struct ledger_usage_query *query = &asked.task.query;
    snprintf(query->tenant_id, sizeof query->tenant_id, "tnt_1");
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    assert_int_equal(asked.task.page.count, 4);
    assert_string_equal(asked.task.page.rows[0].key_id, "key_1_0");
    assert_string_equal(asked.task.page.rows[0].tenant_id, "");
    check_page(query, &asked.task.page, ROWS, ROWS / 3);
    ledger_usage_page_deinit(&asked.task.page);

    snprintf(query->key_id, sizeof query->key_id, "key_1_1");
    snprintf(query->model, sizeof query->model, "large");
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    check_page(query, &asked.task.page, ROWS, ROWS / 12);
    ledger_usage_page_deinit(&asked.task.page);

    snprintf(query->service_class, sizeof query->service_class, "none");
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    assert_int_equal(asked.task.page.count, 0);
    ledger_usage_page_deinit(&asked.task.page);

    /* Another tenant's key under this tenant's name: nothing. */
    *query = (struct ledger_usage_query){.start_s = START_S, .width_s = DAY_S, .buckets = 1};
    snprintf(query->tenant_id, sizeof query->tenant_id, "tnt_1");
    snprintf(query->key_id, sizeof query->key_id, "key_2_1");
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    assert_int_equal(asked.task.page.count, 0);
    ledger_usage_page_deinit(&asked.task.page);

    /* A bucket is from its first second to before the next one's. */
    *query = (struct ledger_usage_query){.start_s = START_S + 60, .width_s = 60, .buckets = 1};
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    check_page(query, &asked.task.page, ROWS, 1); /* 47 s is before it, 94 s in it, 141 s after */
    ledger_usage_page_deinit(&asked.task.page);
}

static void append_at(struct fixture *fixture, int number, int64_t at_us)
{
    struct ledger_row row = row_of(number);
    row.at_us = at_us;
    atomic_store(&committed, 0);
    assert_int_equal(ledger_append(fixture->ledger, &row, on_committed, NULL), STATUS_OK);
    for (int i = 0; i < 20000 && atomic_load(&committed) < 1; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(atomic_load(&committed), 1);
}

static int64_t requests_from(struct fixture *fixture, int64_t start_s, int64_t width_s)
{
    struct asked asked = {.task.query = {.start_s = start_s, .width_s = width_s, .buckets = 1}};
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    int64_t requests = asked.task.page.count > 0 ? asked.task.page.rows[0].requests : 0;
    ledger_usage_page_deinit(&asked.task.page);
    return requests;
}

/* Ends of days, months, years and of a leap day; hours that clocks on the wall skip or have twice:
 * a bucket is of UTC, whole, and has what ended from its first microsecond to before the next. The
 * rows come as from a clock that is set back and forth. */
static void test_ends_of_days_and_summer_time(void **state)
{
    struct fixture *fixture = *state;
    static const int64_t moments[] = {
        1793491200, /* 2026-11-01 00:00 UTC: a month's end, New York's clocks go back that day */
        1793512800, /* 2026-11-01 06:00 UTC: when they do */
        1805007600, /* 2027-03-14 07:00 UTC: when they are set forward */
        1798761600, /* 2027-01-01 00:00 UTC */
        1835395200, /* 2028-02-29 00:00 UTC */
        1835481600, /* 2028-03-01 00:00 UTC */
        1792893600, /* 2026-10-25 01:00 UTC: Berlin's are set back */
    };
    enum { MOMENTS = sizeof moments / sizeof moments[0] };
    static const char *const zones[] = {"America/New_York", "Europe/Berlin", "UTC"};
    static const int64_t widths[] = {60, 3600, DAY_S};
    for (int zone = 0; zone < 3; zone++) {
        setenv("TZ", zones[zone], 1);
        tzset();
        for (int i = 0; i < MOMENTS; i++) {
            append_at(fixture, 1000 * zone + 2 * i, moments[i] * 1000000);
            append_at(fixture, 1000 * zone + 2 * i + 1, moments[i] * 1000000 - 1);
        }
        for (int i = 0; i < MOMENTS; i++) {
            for (int width = 0; width < 3; width++) {
                int64_t start = moments[i] / widths[width] * widths[width];
                int64_t wanted = 0;
                for (int j = 0; j < MOMENTS; j++)
                    wanted += (moments[j] >= start && moments[j] < start + widths[width]) +
                              (moments[j] > start && moments[j] <= start + widths[width]);
                assert_int_equal(requests_from(fixture, start, widths[width]), wanted * (zone + 1));
            }
        }
    }
    unsetenv("TZ");
    tzset();
}

/* More groups than a page holds: it ends at a whole bucket, the next one goes on there, and a
 * bucket that is too large for any page is refused. */
static void test_full_pages(void **state)
{
    struct fixture *fixture = *state;
    sqlite3 *connection;
    assert_int_equal(sqlite3_open(fixture->path, &connection), SQLITE_OK);
    char sql[512];
    snprintf(sql, sizeof sql,
             "with recursive n(i) as (select 0 union all select i + 1 from n where i < %d) "
             "insert into usage_minutes select %d + i / %d, 'tnt', 'key_' || (i %% %d), 'm', 'c', "
             "1, 2, 0, 3, 0 from n",
             3 * 2000 - 1, START_S / 60, 2000, 2000);
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    struct asked asked = {
        .task.query = {
            .start_s = START_S, .width_s = 60, .buckets = 3, .group_by = LEDGER_USAGE_KEY}};
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    assert_int_equal(asked.task.page.count, 4000);
    assert_int_equal(asked.task.page.end_s, START_S + 120);
    ledger_usage_page_deinit(&asked.task.page);
    asked.task.query.start_s = START_S + 120;
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    assert_int_equal(asked.task.page.count, 2000);
    ledger_usage_page_deinit(&asked.task.page);

    /* Exactly a page's worth, then one more, in one bucket. */
    snprintf(sql, sizeof sql,
             "with recursive n(i) as (select 0 union all select i + 1 from n where i < %d) "
             "insert into usage_minutes select %d, 'tnt', 'k' || i, 'm', 'c', 1, 2, 0, 3, 0 from n",
             LIMIT_USAGE_ROWS - 1, START_S / 60 + 1440);
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    asked.task.query.start_s = START_S + DAY_S;
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    assert_int_equal(asked.task.page.count, LIMIT_USAGE_ROWS);
    ledger_usage_page_deinit(&asked.task.page);
    snprintf(sql, sizeof sql,
             "insert into usage_minutes values (%d, 'tnt', 'z', 'm', 'c', 1, 2, 0, 3, 0)",
             START_S / 60 + 1440);
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(ask(fixture, &asked), STATUS_OUT_OF_RANGE);
    assert_null(asked.task.page.rows);
    sqlite3_close(connection);
}

/* A range that would take too long is refused, and the next question is answered. */
static void test_too_much_work(void **state)
{
    struct fixture *fixture = *state;
    sqlite3 *connection;
    assert_int_equal(sqlite3_open(fixture->path, &connection), SQLITE_OK);
    /* A view in the table's place: each of its rows costs a walk. */
    const char *sql =
        "alter table usage_minutes rename to kept; create view usage_minutes as with recursive "
        "n(i) as (select 0 union all select i + 1 from n where i < 1000000000) select i as minute, "
        "'t' as tenant_id, 'k' as key_id, 'm' as model, 'c' as service_class, 1 as requests, 1 as "
        "prompt_tokens, 1 as cached_tokens, 1 as completion_tokens, 0 as cost_nano from n where "
        "exists "
        "(select 1 from sqlite_schema);"; /* a real table, so that the view's end is noticed */
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    struct asked asked = {.task.query = {.start_s = START_S, .width_s = 60, .buckets = 1}};
    assert_int_equal(ask(fixture, &asked), STATUS_OUT_OF_RANGE);
    assert_string_equal(asked.task.note.param, "start_time");
    sql = "drop view usage_minutes; alter table kept rename to usage_minutes";
    assert_int_equal(sqlite3_exec(connection, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(connection);
    assert_int_equal(ask(fixture, &asked), STATUS_OK);
    assert_int_equal(asked.task.page.count, 0);
    ledger_usage_page_deinit(&asked.task.page);
}

static void test_wrong_questions(void **state)
{
    struct fixture *fixture = *state;
    static const struct ledger_usage_query wrong[] = {
        {.start_s = START_S, .width_s = 60, .buckets = 0},
        {.start_s = START_S, .width_s = 60, .buckets = LIMIT_USAGE_BUCKETS + 1},
        {.start_s = START_S, .width_s = 59, .buckets = 1},
        {.start_s = START_S, .width_s = 90, .buckets = 1},
        {.start_s = START_S, .width_s = 0, .buckets = 1},
        {.start_s = START_S + 1, .width_s = 60, .buckets = 1},
        {.start_s = -60, .width_s = 60, .buckets = 1},
        {.start_s = INT64_MAX - 7, .width_s = 60, .buckets = 1},
        {.start_s = START_S, .width_s = 32 * DAY_S, .buckets = 1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct asked asked = {.task.query = wrong[i]};
        assert_int_equal(ask(fixture, &asked), STATUS_INVALID);
    }
}

/* The reader stands in `done` while questions queue up behind it. */
struct gate {
    struct ledger_usage_task task; /* first */
    atomic_int entered;
    atomic_int opened;
};

static void on_gate(struct ledger_usage_task *task)
{
    struct gate *gate = (struct gate *)task;
    atomic_store(&gate->entered, 1);
    while (atomic_load(&gate->opened) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void test_queue_is_bounded_and_fair(void **state)
{
    struct fixture *fixture = *state;
    static struct asked asked[LIMIT_USAGE_TASKS + 1];
    struct gate gate = {
        .task = {.query = {.start_s = START_S, .width_s = 60, .buckets = 1}, .done = on_gate}};
    assert_int_equal(ledger_usage_ask(fixture->usage, &gate.task), STATUS_OK);
    while (atomic_load(&gate.entered) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    for (int i = 0; i <= LIMIT_USAGE_TASKS; i++) {
        asked[i] = (struct asked){
            .task = {.query = {.start_s = START_S, .width_s = 60, .buckets = 1}, .done = on_done}};
        snprintf(asked[i].task.asker, LIMIT_ID_BYTES, "tnt_%d", i / LIMIT_USAGE_TASKS_TENANT);
        bool fits = i < LIMIT_USAGE_TASKS;
        if (i > 0 && i % LIMIT_USAGE_TASKS_TENANT == 0 && fits) { /* the one before has its share */
            struct asked more = asked[i - 1];
            assert_int_equal(ledger_usage_ask(fixture->usage, &more.task), STATUS_UNAVAILABLE);
        }
        assert_int_equal(ledger_usage_ask(fixture->usage, &asked[i].task),
                         fits ? STATUS_OK : STATUS_UNAVAILABLE);
    }
    /* The end: what waits is told so, once each. */
    pthread_t closer;
    assert_int_equal(pthread_create(&closer, NULL, (void *(*)(void *))(void *)ledger_usage_close,
                                    fixture->usage),
                     0);
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL); /* for the closer to begin */
    atomic_store(&gate.opened, 1);
    pthread_join(closer, NULL);
    fixture->usage = NULL;
    for (int i = 0; i < LIMIT_USAGE_TASKS; i++) {
        assert_int_equal(atomic_load(&asked[i].done), 1);
        ledger_usage_page_deinit(&asked[i].task.page);
    }
    assert_int_equal(asked[LIMIT_USAGE_TASKS - 1].task.note.status, STATUS_CANCELLED);
    assert_int_equal(atomic_load(&asked[LIMIT_USAGE_TASKS].done), 0);
    ledger_usage_page_deinit(&gate.task.page);
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct fixture *fixture = *state;
    append(fixture, 200);
    int failures = 0;
    for (int n = 1;; n++) {
        int left = n;
        struct asked asked = {
            .task.query = {
                .start_s = START_S, .width_s = 60, .buckets = 1440, .group_by = LEDGER_USAGE_KEY}};
        mem_hook_set(kit_fail_at, &left);
        enum status status = ask(fixture, &asked);
        mem_hook_set(NULL, NULL);
        if (status == STATUS_OK) {
            check_page(&asked.task.query, &asked.task.page, 200, 200);
            ledger_usage_page_deinit(&asked.task.page);
            break;
        }
        assert_int_equal(status, STATUS_NO_MEMORY);
        assert_null(asked.task.page.rows);
        failures++;
    }
    assert_true(failures >= 2);
    int left = 1;
    struct ledger_usage *other = NULL;
    mem_hook_set(kit_fail_at, &left);
    assert_int_equal(ledger_usage_open(&other, fixture->path), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    assert_null(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sums_by_every_group, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filters_and_ranges, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends_of_days_and_summer_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_much_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_questions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_queue_is_bounded_and_fair, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails_at_each_allocation, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
