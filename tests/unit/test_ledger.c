#include "auth/ledger/ledger.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/metrics.h"

struct fixture {
    char folder[64];
    char path[96];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    snprintf(fixture->folder, sizeof fixture->folder, "/tmp/test_ledger.XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->path, sizeof fixture->path, "%s/ledger.db", fixture->folder);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    static const char *const endings[] = {"", "-wal", "-shm"};
    struct fixture *fixture = *state;
    for (size_t i = 0; i < 3; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", fixture->path, endings[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(fixture->folder), 0);
    free(fixture);
    return 0;
}

/* Row `number`: its tokens are a function of the number, so that sums are known without a count. */
static void make_row(struct ledger_row *row, int number)
{
    *row = (struct ledger_row){.at_us = INT64_C(1700000000000000) + number * 1000,
                               .http_code = 200,
                               .prompt_tokens = (uint32_t)number,
                               .cached_tokens = (uint32_t)number / 2,
                               .completion_tokens = (uint32_t)number % 7,
                               .total_us = number};
    snprintf(row->request_id, sizeof row->request_id, "req_%032x", (unsigned)number);
    snprintf(row->tenant_id, sizeof row->tenant_id, "tnt_%d", number % 3);
    snprintf(row->key_id, sizeof row->key_id, "key_%d", number % 100);
    snprintf(row->model, sizeof row->model, "model");
    snprintf(row->route, sizeof row->route, "/v1/chat/completions");
    snprintf(row->service_class, sizeof row->service_class, "default");
    snprintf(row->finish, sizeof row->finish, "stop");
}

static enum status open_at(struct ledger **ledger, const char *path)
{
    return ledger_open(ledger, &(struct ledger_options){.path = path});
}

struct told {
    atomic_int ok;
    atomic_int again; /* of a request that has its row */
    atomic_int failed;
};

static void on_committed(void *context, enum status status, int64_t cost_nano)
{
    (void)cost_nano;
    struct told *told = context;
    atomic_fetch_add(status == STATUS_OK       ? &told->ok
                     : status == STATUS_EXISTS ? &told->again
                                               : &told->failed,
                     1);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Up to 120 s: a liveness limit for machines under load. */
static bool wait_for(atomic_int *counter, int wanted)
{
    for (int i = 0; i < 24000 && atomic_load(counter) < wanted; i++)
        sleep_ms(5);
    return atomic_load(counter) == wanted;
}

static int64_t query(const char *path, const char *sql)
{
    sqlite3 *connection;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open_v2(path, &connection, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(connection, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(connection);
    return number;
}

static void test_row_is_in_the_file_when_told(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct ledger_row row;
    struct told told = {0};
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    assert_true(ledger_is_writable(ledger));
    make_row(&row, 41);
    assert_int_equal(ledger_append(ledger, &row, on_committed, &told), STATUS_OK);
    assert_true(wait_for(&told.ok, 1));
    assert_int_equal(query(fixture->path, "select prompt_tokens from requests where request_id = "
                                          "'req_00000000000000000000000000000029'"),
                     41);
    struct ledger_totals totals;
    ledger_totals(ledger, &totals);
    assert_int_equal(totals.rows, 1);
    assert_int_equal(totals.prompt_tokens, 41);
    assert_int_equal(totals.completion_tokens, 41 % 7);
    assert_int_equal(totals.queued, 0);
    ledger_close(ledger);
    struct stat about;
    assert_int_equal(stat(fixture->path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
}

enum { THREADS = 4, ROWS = 10000 };

struct producer {
    struct ledger *ledger;
    struct told *told;
    int first;
};

static void *produce(void *context)
{
    struct producer *producer = context;
    struct ledger_row row;
    for (int i = producer->first; i < ROWS; i += THREADS) {
        make_row(&row, i);
        while (ledger_append(producer->ledger, &row, on_committed, producer->told) == STATUS_BUSY)
            sleep_ms(1);
    }
    return NULL;
}

static void test_ten_thousand_rows_of_four_threads(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct told told = {0};
    pthread_t threads[THREADS];
    struct producer producers[THREADS];
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    for (int i = 0; i < THREADS; i++) {
        producers[i] = (struct producer){ledger, &told, i};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ledger_close(ledger); /* commits what has queued */
    assert_int_equal(atomic_load(&told.ok), ROWS);
    assert_int_equal(atomic_load(&told.failed), 0);

    int64_t prompt = 0;
    int64_t cached = 0;
    int64_t completion = 0;
    for (int i = 0; i < ROWS; i++) {
        prompt += i;
        cached += i / 2;
        completion += i % 7;
    }
    const char *path = fixture->path;
    assert_int_equal(query(path, "select count(*) from requests"), ROWS);
    assert_int_equal(query(path, "select count(distinct request_id) from requests"), ROWS);
    assert_int_equal(query(path, "select sum(prompt_tokens) from requests"), prompt);
    assert_int_equal(query(path, "select sum(requests) from usage_minutes"), ROWS);
    assert_int_equal(query(path, "select sum(prompt_tokens) from usage_minutes"), prompt);
    assert_int_equal(query(path, "select sum(cached_tokens) from usage_minutes"), cached);
    assert_int_equal(query(path, "select sum(completion_tokens) from usage_minutes"), completion);
    /* Sequences have no gap: they are given with the commit. */
    assert_int_equal(query(path, "select max(id) - min(id) + 1 from requests"), ROWS);
    assert_int_equal(query(path, "select min(id) >> 48 from requests"), 1);
    /* Each roll-up equals the sum of its own rows. */
    assert_int_equal(
        query(path, "select count(*) from usage_minutes u where prompt_tokens <> (select "
                    "sum(prompt_tokens) from requests r where r.at_us / 60000000 = u.minute and "
                    "r.tenant_id = u.tenant_id and r.key_id = u.key_id)"),
        0);
}

static void test_duplicates_count_once(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct ledger_row row;
    struct told told = {0};
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    make_row(&row, 5);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ledger_append(ledger, &row, on_committed, &told), STATUS_OK);
    assert_true(wait_for(&told.again, 2));
    assert_int_equal(told.ok, 1);
    struct ledger_totals totals;
    ledger_totals(ledger, &totals);
    assert_int_equal(totals.rows, 1);
    ledger_close(ledger);

    /* An engine replays its records to an edge that was restarted. */
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    assert_int_equal(ledger_append(ledger, &row, on_committed, &told), STATUS_OK);
    make_row(&row, 6);
    assert_int_equal(ledger_append(ledger, &row, on_committed, &told), STATUS_OK);
    assert_true(wait_for(&told.ok, 2));
    assert_int_equal(told.again, 3);
    assert_int_equal(told.failed, 0);
    ledger_close(ledger);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), 2);
    assert_int_equal(query(fixture->path, "select sum(requests) from usage_minutes"), 2);
    /* The sequence went on. */
    assert_int_equal(query(fixture->path, "select max(id) - (1 << 48) from requests"), 2);
}

/* The process dies without closing anything: what was told is there. */
static void test_death_after_commit(void **state)
{
    struct fixture *fixture = *state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct ledger *ledger;
        struct ledger_row row;
        struct told told = {0};
        if (open_at(&ledger, fixture->path) != STATUS_OK)
            _exit(1);
        for (int i = 1; i <= 100; i++) {
            make_row(&row, i);
            ledger_append(ledger, &row, on_committed, &told);
        }
        _exit(wait_for(&told.ok, 100) ? 0 : 2);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), 100);
    assert_int_equal(query(fixture->path, "select sum(prompt_tokens) from usage_minutes"), 5050);
}

/* A limit on the size of files stands for the full disk: the same error path in SQLite, and it can
 * be lifted again. Returns the number of the step that went wrong, 0 for none. */
static int full_disk_child(const char *path)
{
    struct ledger *ledger;
    struct ledger_row row;
    struct told told = {0};
    log_open(STDERR_FILENO, LOG_ERROR + 1, "test"); /* the failure is expected */
    signal(SIGXFSZ, SIG_IGN);
    if (open_at(&ledger, path) != STATUS_OK)
        return 1;
    make_row(&row, 1);
    if (ledger_append(ledger, &row, on_committed, &told) != STATUS_OK || !wait_for(&told.ok, 1))
        return 2;
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 2; i <= 20; i++) {
        make_row(&row, i);
        if (ledger_append(ledger, &row, on_committed, &told) != STATUS_OK)
            return 3;
    }
    for (int i = 0; i < 24000 && ledger_is_writable(ledger); i++)
        sleep_ms(5);
    if (ledger_is_writable(ledger))
        return 4;
    if (!wait_for(&told.failed, 19)) /* clients are told after a second … */
        return 5;
    struct ledger_totals totals;
    ledger_totals(ledger, &totals);
    if (totals.rows != 1 || totals.queued != 19) /* … and no row is given up */
        return 6;
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    for (int i = 0; i < 24000 && !ledger_is_writable(ledger); i++)
        sleep_ms(5);
    ledger_totals(ledger, &totals);
    if (!ledger_is_writable(ledger) || totals.rows != 20 || totals.queued != 0)
        return 7;
    make_row(&row, 21);
    if (ledger_append(ledger, &row, on_committed, &told) != STATUS_OK || !wait_for(&told.ok, 2))
        return 8;
    ledger_close(ledger);
    return 0;
}

static void test_full_disk(void **state)
{
    struct fixture *fixture = *state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(full_disk_child(fixture->path));
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), 21);
    assert_int_equal(query(fixture->path, "select sum(prompt_tokens) from usage_minutes"), 231);
}

/* The writer stands still in a callback, as behind a slow disk. */
struct gate {
    atomic_int entered;
    atomic_int opened;
};

static void on_committed_wait(void *context, enum status status, int64_t cost_nano)
{
    (void)cost_nano;
    struct gate *gate = context;
    (void)status;
    atomic_store(&gate->entered, 1);
    while (atomic_load(&gate->opened) == 0)
        sleep_ms(1);
}

static void test_a_writer_that_is_behind(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct ledger_row row;
    struct ledger_totals totals;
    struct gate gate = {0};
    struct told told = {0};
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    make_row(&row, 0);
    assert_int_equal(ledger_append(ledger, &row, on_committed_wait, &gate), STATUS_OK);
    assert_true(wait_for(&gate.entered, 1));
    for (int i = 1; i <= LIMIT_LEDGER_QUEUE; i++) {
        make_row(&row, i);
        assert_int_equal(ledger_append(ledger, &row, on_committed, &told), STATUS_OK);
    }
    make_row(&row, LIMIT_LEDGER_QUEUE + 1);
    assert_int_equal(ledger_append(ledger, &row, on_committed, &told), STATUS_BUSY);
    ledger_totals(ledger, &totals);
    assert_int_equal(totals.queued, LIMIT_LEDGER_QUEUE);
    for (int i = 0; i < 24000 && ledger_is_writable(ledger); i++)
        sleep_ms(5);
    assert_false(ledger_is_writable(ledger));
    atomic_store(&gate.opened, 1);
    assert_true(wait_for(&told.ok, LIMIT_LEDGER_QUEUE));
    for (int i = 0; i < 24000 && !ledger_is_writable(ledger); i++)
        sleep_ms(5);
    assert_true(ledger_is_writable(ledger));
    ledger_close(ledger);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), LIMIT_LEDGER_QUEUE + 1);
}

/* Once a batch, on the writer's thread, after the batch's own rows were told of. */
struct batches {
    struct told told;
    atomic_int batches;
    atomic_int seen; /* rows that were told of when the last batch was */
};

static void on_batch(void *context)
{
    struct batches *batches = context;
    atomic_fetch_add(&batches->batches, 1);
    atomic_store(&batches->seen,
                 atomic_load(&batches->told.ok) + atomic_load(&batches->told.again));
}

static void test_batches_are_told_once(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct ledger_row row;
    struct gate gate = {0};
    struct batches batches = {0};
    struct metrics *metrics;
    struct buffer text;
    buffer_init(&text, 1 << 20);
    assert_int_equal(metrics_create(&metrics), STATUS_OK);
    assert_int_equal(ledger_open(&ledger, &(struct ledger_options){.path = fixture->path,
                                                                   .metrics = metrics,
                                                                   .batch_told = on_batch,
                                                                   .batch_context = &batches}),
                     STATUS_OK);
    make_row(&row, 0);
    assert_int_equal(ledger_append(ledger, &row, on_committed_wait, &gate), STATUS_OK);
    assert_true(wait_for(&gate.entered, 1));
    enum { MORE = 2 * LIMIT_LEDGER_BATCH + 5 };
    for (int i = 1; i <= MORE; i++) {
        make_row(&row, i == 3 ? 2 : i); /* one of them twice */
        assert_int_equal(ledger_append(ledger, &row, on_committed, &batches.told), STATUS_OK);
    }
    atomic_store(&gate.opened, 1);
    assert_true(wait_for(&batches.seen, MORE));
    assert_int_equal(atomic_load(&batches.batches), 1 + 3);
    metrics_render(metrics, &text);
    assert_non_null(strstr(text.bytes, "\nbanyan_ledger_batch_rows_count 4\n"));
    assert_non_null(strstr(text.bytes, "\nbanyan_ledger_commit_seconds_count 4\n"));
    assert_non_null(strstr(text.bytes, "\nbanyan_ledger_duplicates_total 1\n"));
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\nbanyan_ledger_rows_total %d\n", MORE);
    assert_non_null(strstr(text.bytes, wanted));
    ledger_close(ledger);
    metrics_destroy(metrics);
    buffer_deinit(&text);
}

/* Rows that are queued without a wake-up wait for the next one, and are one commit with it. */
static void test_queued_rows_are_one_commit(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct ledger_row row;
    struct ledger_totals totals;
    struct batches batches = {0};
    struct ledger_options options = {
        .path = fixture->path, .batch_told = on_batch, .batch_context = &batches};
    assert_int_equal(ledger_open(&ledger, &options), STATUS_OK);
    for (int i = 0; i < 20; i++) {
        make_row(&row, i);
        assert_int_equal(ledger_queue(ledger, &row, on_committed, &batches.told), STATUS_OK);
    }
    sleep_ms(50);
    ledger_totals(ledger, &totals);
    assert_int_equal(totals.queued, 20);
    assert_int_equal(atomic_load(&batches.batches), 0);
    ledger_wake(ledger);
    assert_true(wait_for(&batches.seen, 20));
    assert_int_equal(atomic_load(&batches.batches), 1);
    make_row(&row, 20); /* the end commits it */
    assert_int_equal(ledger_queue(ledger, &row, on_committed, &batches.told), STATUS_OK);
    ledger_close(ledger);
    assert_int_equal(atomic_load(&batches.told.ok), 21);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), 21);
}

static void on_committed_slowly(void *context, enum status status, int64_t cost_nano)
{
    sleep_ms(5);
    on_committed(context, status, cost_nano);
}

static bool commit_one_here(struct ledger *ledger, int number, ledger_committed committed,
                            void *context)
{
    struct ledger_row row;
    make_row(&row, number);
    assert_int_equal(ledger_queue(ledger, &row, committed, context), STATUS_OK);
    bool is_done = ledger_commit_here(ledger);
    if (!is_done)
        ledger_wake(ledger);
    return is_done;
}

/* Committed on the caller's thread: told before the call returns. A lock of somebody else's is not
 * waited for, and a commit that was slow is followed by a second without. */
static void test_commits_on_the_callers_thread(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct told told = {0};
    struct batches batches = {0};
    struct ledger_options options = {
        .path = fixture->path, .batch_told = on_batch, .batch_context = &batches};
    assert_int_equal(ledger_open(&ledger, &options), STATUS_OK);
    assert_true(ledger_commit_here(ledger)); /* nothing to do */
    int number = 0;
    int here = 0;
    for (; here < 20; number++) { /* a machine under load has slow ones by itself */
        int before = atomic_load(&told.ok);
        bool is_here = commit_one_here(ledger, number, on_committed, &told);
        if (is_here)
            assert_int_equal(atomic_load(&told.ok), before + 1);
        here += is_here;
        assert_true(wait_for(&told.ok, number + 1));
        sleep_ms(is_here ? 0 : 100);
    }
    assert_true(ledger_is_writable(ledger));
    sqlite3 *other;
    assert_int_equal(sqlite3_open(fixture->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
    assert_false(commit_one_here(ledger, number++, on_committed, &told));
    assert_int_equal(atomic_load(&told.ok), number - 1);
    assert_int_equal(sqlite3_exec(other, "rollback", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_true(wait_for(&told.ok, number));
    while (!commit_one_here(ledger, number, on_committed_slowly, &told)) {
        assert_true(wait_for(&told.ok, ++number));
        sleep_ms(100);
    }
    number++;
    int64_t slow_us = clock_mono_us(clock_system());
    while (!commit_one_here(ledger, number, on_committed, &told)) {
        assert_true(wait_for(&told.ok, ++number));
        sleep_ms(10);
    }
    assert_true(clock_mono_us(clock_system()) - slow_us >= 900000);
    ledger_close(ledger);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), number + 1);
    assert_int_equal(query(fixture->path, "select max(id) - min(id) + 1 from requests"),
                     number + 1);
}

static void *produce_here(void *context)
{
    struct producer *producer = context;
    for (int i = producer->first; i < ROWS; i += THREADS)
        commit_one_here(producer->ledger, i, on_committed, producer->told);
    return NULL;
}

/* Beside the writer's thread, each row is in the file once, and told of once. */
static void test_two_who_commit(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct told told = {0};
    pthread_t threads[2];
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    struct producer producers[2] = {{ledger, &told, 0}, {ledger, &told, 1}};
    pthread_create(&threads[0], NULL, produce_here, &producers[0]);
    pthread_create(&threads[1], NULL, produce, &producers[1]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(wait_for(&told.ok, ROWS / THREADS * 2));
    ledger_close(ledger);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), ROWS / THREADS * 2);
    assert_int_equal(query(fixture->path, "select sum(requests) from usage_minutes"),
                     ROWS / THREADS * 2);
}

/* A server that was switched off for years: old rows go while new ones come, the sums stay. */
static void test_old_rows_go_beside_the_writer(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct ledger_row row;
    struct ledger_totals totals = {0};
    struct told told = {0};
    struct ledger_options options = {.path = fixture->path, .keep_days = 1, .expire_ms = 10};
    assert_int_equal(ledger_open(&ledger, &options), STATUS_OK);
    enum { OLD = 1000, NEW = 500 };
    for (int i = 0; i < OLD + NEW; i++) {
        make_row(&row, i);
        /* Old ones within a millisecond, so that the pace is met at once. */
        row.at_us =
            i < OLD ? INT64_C(1700000000000000) + i : (int64_t)clock_wall_us(clock_system());
        assert_int_equal(ledger_append(ledger, &row, on_committed, &told), STATUS_OK);
        if (i == OLD)
            sleep_ms(50);
    }
    assert_true(wait_for(&told.ok, OLD + NEW));
    for (int i = 0; i < 24000 && totals.deleted != OLD; i++) {
        sleep_ms(5);
        ledger_totals(ledger, &totals);
    }
    assert_int_equal(totals.deleted, OLD);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), NEW);
    assert_int_equal(query(fixture->path, "select sum(requests) from usage_minutes"), OLD + NEW);
    assert_true(totals.kept_since_us >= INT64_C(1700000000000000));
    assert_true(totals.kept_since_us < clock_wall_us(clock_system()) - INT64_C(86400) * 1000000);
    assert_true(totals.file_bytes >= 4096);
    ledger_close(ledger);
    /* Without the option nothing goes. */
    options.keep_days = 0;
    assert_int_equal(ledger_open(&ledger, &options), STATUS_OK);
    make_row(&row, OLD + NEW);
    assert_int_equal(ledger_append(ledger, &row, on_committed, &told), STATUS_OK);
    assert_true(wait_for(&told.ok, OLD + NEW + 1));
    sleep_ms(50);
    ledger_totals(ledger, &totals);
    assert_int_equal(totals.deleted, 0);
    assert_int_equal(totals.kept_since_us, 0);
    ledger_close(ledger);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), NEW + 1);
}

/* --- death in mid-commit --- */

static int crash_told; /* the child's end of a pipe: the numbers of the rows it was told of */

static void crash_on_committed(void *context, enum status status, int64_t cost_nano)
{
    (void)cost_nano;
    int32_t number = (int32_t)(intptr_t)context;
    if (status == STATUS_OK && write(crash_told, &number, sizeof number) != sizeof number)
        _exit(3);
}

/* Writes rows in the order of their numbers until it is killed. */
static void crash_child(const char *path, int first)
{
    struct ledger *ledger;
    struct ledger_row row;
    if (open_at(&ledger, path) != STATUS_OK)
        _exit(1);
    for (int i = first;; i++) {
        make_row(&row, i);
        while (ledger_append(ledger, &row, crash_on_committed, (void *)(intptr_t)i) != STATUS_OK)
            sleep_ms(1);
        if (i % 64 == 0)
            sleep_ms(1); /* commits of all sizes */
    }
}

/* Lets the child write from `first` on, kills it, and returns the last row that it was told of. */
static int crash_round(const char *path, int first, long ms)
{
    int ends[2];
    int32_t number = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        crash_told = ends[1];
        crash_child(path, first);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &number, sizeof number), sizeof number);
    sleep_ms(ms);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    int last = number;
    while (read(ends[0], &number, sizeof number) == sizeof number)
        last = number > last ? number : last;
    close(ends[0]);
    return last;
}

/* kill -9 at random instants: what was told of is there, sums and rows agree, and the same rows
 * sent again (an engine replays what was not acknowledged) are counted once. */
static void test_killed_in_mid_commit(void **state)
{
    struct fixture *fixture = *state;
    const char *path = fixture->path;
    enum { ROUNDS = 12 };
    int next = 0; /* the first row that nobody was told of */
    unsigned seed = 12345;
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1103515245u + 12345u;
        int last = crash_round(path, next > 500 ? next - 500 : 0, (long)(seed >> 16) % 40);
        next = last + 1 > next ? last + 1 : next;
        assert_true(query(path, "select count(*) from requests") >= next);
        assert_int_equal(query(path, "select count(*) - count(distinct request_id) from requests"),
                         0);
        assert_int_equal(query(path, "select (select count(*) from requests) - (select "
                                     "sum(requests) from usage_minutes)"),
                         0);
        assert_int_equal(query(path, "select (select sum(prompt_tokens) from requests) - (select "
                                     "sum(prompt_tokens) from usage_minutes)"),
                         0);
        assert_int_equal(query(path, "select max(id) - min(id) + 1 - count(*) from requests"), 0);
    }
    assert_true(next > ROUNDS);
}

/* An engine replays as many records as it keeps, after a restart of the edge, while other requests
 * have gone by: not one is counted twice. */
static void test_a_full_replay_after_a_restart(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    struct ledger_row row;
    struct ledger_totals totals;
    struct told told = {0};
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    enum { ALL = LIMIT_FINAL_RECORDS + 20000 };
    for (int i = 0; i < ALL; i++) {
        make_row(&row, i);
        while (ledger_append(ledger, &row, NULL, NULL) == STATUS_BUSY)
            sleep_ms(1);
    }
    ledger_close(ledger);
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    for (int i = ALL - LIMIT_FINAL_RECORDS - 10000; i < ALL; i += 7) {
        make_row(&row, i);
        while (ledger_append(ledger, &row, NULL, NULL) == STATUS_BUSY)
            sleep_ms(1);
    }
    make_row(&row, ALL); /* a new one behind them */
    assert_int_equal(ledger_append(ledger, &row, on_committed, &told), STATUS_OK);
    assert_true(wait_for(&told.ok, 1));
    ledger_totals(ledger, &totals);
    assert_int_equal(totals.rows, 1);
    ledger_close(ledger);
    assert_int_equal(query(fixture->path, "select count(*) from requests"), ALL + 1);
}

static void test_newer_file_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    ledger_close(ledger);
    query(fixture->path, "insert into schema_steps values (99, 0) returning 1");
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_CONFLICT);
    assert_null(ledger);
}

static int fail_at(void *context, size_t bytes)
{
    int *left = context;
    (void)bytes;
    return --*left == 0;
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct fixture *fixture = *state;
    struct ledger *ledger;
    int failures = 0;
    assert_int_equal(open_at(&ledger, fixture->path), STATUS_OK);
    ledger_close(ledger);
    for (int n = 1;; n++) {
        int left = n;
        mem_hook_set(fail_at, &left);
        enum status status = open_at(&ledger, fixture->path);
        mem_hook_set(NULL, NULL);
        if (status == STATUS_OK)
            ledger_close(ledger);
        if (left > 0)
            break;
        failures += status == STATUS_NO_MEMORY;
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
    }
    assert_true(failures >= 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_row_is_in_the_file_when_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ten_thousand_rows_of_four_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_duplicates_count_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_death_after_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_writer_that_is_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_newer_file_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_batches_are_told_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_queued_rows_are_one_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_commits_on_the_callers_thread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_who_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_old_rows_go_beside_the_writer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_in_mid_commit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_full_replay_after_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_fails_at_each_allocation, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
