#include "config/store.h"

#include "tests/unit/base_kit.h"

#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { STEPS = 14 }; /* of the schema */

struct fixture {
    char folder[64];
    char path[96];
};

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    kit_folder_make(fixture->folder);
    snprintf(fixture->path, sizeof fixture->path, "%s/banyan.db", fixture->folder);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

static int64_t query(struct sqlite3 *connection, const char *sql)
{
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(connection, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

static int mode_of(const char *path, const char *ending)
{
    char name[128];
    struct stat about;
    snprintf(name, sizeof name, "%s%s", path, ending);
    return stat(name, &about) == 0 ? (int)(about.st_mode & 0777) : -1;
}

static const char tenant_sql[] =
    "insert into tenants (id, name, state, weight, created_at_s) values ('t', 'n', 0, 1, 0)";

static void test_open_and_settings(void **state)
{
    struct fixture *fixture = *state;
    struct store *store;
    struct sqlite3 *connection;
    assert_int_equal(store_open(&store, fixture->path), STATUS_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    assert_int_equal(query(connection, "pragma synchronous"), 2);
    assert_int_equal(query(connection, "pragma foreign_keys"), 1);
    assert_int_equal(query(connection, "select count(*) from schema_steps"), STEPS);
    assert_int_equal(query(connection, "select count(*) from pragma_journal_mode where "
                                       "journal_mode = 'wal'"),
                     1);
    assert_int_equal(store_execute(connection, tenant_sql), STATUS_OK);
    assert_int_equal(mode_of(fixture->path, ""), 0600);
    assert_int_equal(mode_of(fixture->path, "-wal"), 0600);
    assert_int_equal(mode_of(fixture->path, "-shm"), 0600);
    assert_int_equal(store_end(store, true), STATUS_OK);
    store_close(store);
    store_close(NULL);
}

static void test_commit_and_roll_back(void **state)
{
    struct fixture *fixture = *state;
    struct store *store;
    struct sqlite3 *connection;
    assert_int_equal(store_open(&store, fixture->path), STATUS_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    assert_int_equal(store_execute(connection, tenant_sql), STATUS_OK);
    assert_int_equal(store_end(store, false), STATUS_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    assert_int_equal(query(connection, "select count(*) from tenants"), 0);
    assert_int_equal(store_execute(connection, tenant_sql), STATUS_OK);
    assert_int_equal(store_end(store, true), STATUS_OK);
    store_close(store);
    assert_int_equal(store_open(&store, fixture->path), STATUS_OK); /* no step runs twice */
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    assert_int_equal(query(connection, "select count(*) from tenants"), 1);
    assert_int_equal(query(connection, "select count(*) from schema_steps"), STEPS);
    assert_int_equal(store_end(store, false), STATUS_OK);
    store_close(store);
}

/* The schema of the first release, as it stands in files out there. */
static const char first_release[] =
    "create table tenants (number integer primary key autoincrement, id text not null unique,"
    " name text not null, state integer not null check (state between 0 and 2),"
    " weight integer not null check (weight between 1 and 1000),"
    " created_at_s integer not null) strict;"
    "create unique index tenants_name on tenants (name) where state <> 2;"
    "create table keys (number integer primary key autoincrement, id text not null unique,"
    " tenant_id text references tenants (id), name text not null, redacted text not null,"
    " scopes integer not null, hash blob not null unique check (length(hash) = 32),"
    " created_at_s integer not null, expires_at_s integer not null,"
    " revoked_at_s integer not null) strict;"
    "create table audit (id integer primary key autoincrement, at_us integer not null,"
    " type text not null, actor_key_id text not null, peer text not null,"
    " request_id text not null, subject text not null, detail text not null) strict;";

/* Its keys get the scopes of what they could do before; admins' scopes stay. */
static void test_first_release_opens(void **state)
{
    struct fixture *fixture = *state;
    static const char *const steps[] = {first_release};
    struct sqlite3 *connection;
    struct store *store;
    assert_int_equal(store_connect(&connection, fixture->path, true), STATUS_OK);
    assert_int_equal(store_migrate(connection, steps, 1), STATUS_OK);
    assert_int_equal(
        store_execute(connection,
                      "insert into tenants values (1, 't', 'n', 1, 7, 5);"
                      "insert into keys values (1, 'k', 't', '', '', 0, zeroblob(32), 5, 6, 7);"
                      "insert into keys values (2, 'a', null, '', '', 31,"
                      " cast(printf('%032d', 1) as blob), 5, 0, 0)"),
        STATUS_OK);
    sqlite3_close(connection);
    assert_int_equal(store_open(&store, fixture->path), STATUS_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    assert_int_equal(query(connection, "select count(*) from tenants where id = 't' and state = 1"
                                       " and weight = 7 and revision = 1 and metadata = '{}'"
                                       " and group_name = '' and share = 0"
                                       " and cache_share = 100 and models = ''"),
                     1);
    assert_int_equal(query(connection, "select scopes from keys where id = 'k'"), 40);
    assert_int_equal(query(connection, "select scopes from keys where id = 'a'"), 31);
    assert_int_equal(query(connection, "select count(*) from keys where revision = 1"
                                       " and last_used_at_s = 0 and rotated_to = ''"
                                       " and created_at_s = 5"),
                     2);
    assert_int_equal(query(connection, "select count(*) from answers"), 0);
    assert_int_equal(store_end(store, false), STATUS_OK);
    store_close(store);
}

static void test_rules_of_the_schema(void **state)
{
    struct fixture *fixture = *state;
    struct store *store;
    struct sqlite3 *connection;
    assert_int_equal(store_open(&store, fixture->path), STATUS_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    static const char *const refused[] = {
        "insert into tenants (id, name, state, weight, created_at_s) values ('a', 'n', 3, 1, 0)",
        "insert into tenants (id, name, state, weight, created_at_s) values ('a', 'n', 0, 0, 0)",
        "insert into tenants (id, name, state, weight, created_at_s) values ('a', 'n', 0, 'x', 0)",
        "insert into keys (id, tenant_id, name, redacted, scopes, hash, created_at_s, "
        "expires_at_s, revoked_at_s) values ('k', 'nobody', '', '', 0, zeroblob(32), 0, 0, 0)",
        "insert into keys (id, tenant_id, name, redacted, scopes, hash, created_at_s, "
        "expires_at_s, revoked_at_s) values ('k', null, '', '', 0, zeroblob(31), 0, 0, 0)",
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(store_execute(connection, refused[i]), STATUS_CONFLICT);
    assert_int_equal(store_end(store, false), STATUS_OK);
    store_close(store);
}

static void test_newer_and_foreign_files(void **state)
{
    struct fixture *fixture = *state;
    struct store *store;
    struct sqlite3 *connection;
    assert_int_equal(store_open(&store, fixture->path), STATUS_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    assert_int_equal(
        store_execute(connection,
                      "insert into schema_steps select count(*) + 1, 0 from schema_steps"),
        STATUS_OK);
    assert_int_equal(store_end(store, true), STATUS_OK);
    store_close(store);
    assert_int_equal(store_open(&store, fixture->path), STATUS_CONFLICT);
    assert_null(store);
    assert_non_null(strstr(status_note()->message, "newer version"));

    unlink(fixture->path);
    FILE *file = fopen(fixture->path, "w");
    for (int i = 0; i < 1000; i++)
        fputs("no database ", file);
    fclose(file);
    assert_int_equal(store_open(&store, fixture->path), STATUS_CORRUPT);
    assert_int_equal(store_open(&store, "/nowhere/at/all/banyan.db"), STATUS_IO);
    assert_null(strstr(status_note()->message, "nowhere"));
    unlink(fixture->path);
    assert_int_equal(symlink("elsewhere", fixture->path), 0);
    assert_int_equal(store_open(&store, fixture->path), STATUS_IO);
}

static void test_folder_is_made(void **state)
{
    struct fixture *fixture = *state;
    char folder[128];
    char path[160];
    struct stat about;
    struct store *store;
    snprintf(folder, sizeof folder, "%s/data", fixture->folder);
    snprintf(path, sizeof path, "%s/banyan.db", folder);
    assert_int_equal(store_open(&store, path), STATUS_OK);
    store_close(store);
    assert_int_equal(stat(folder, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    kit_folder_remove(folder);
}

/* Steps that were added since are run, each once; one that fails leaves the file as it was. */
static void test_migrations(void **state)
{
    struct fixture *fixture = *state;
    static const char *const steps[] = {"create table a (x integer)", "insert into a values (1)",
                                        "insert into nothing values (1)"};
    struct sqlite3 *connection;
    assert_int_equal(store_connect(&connection, fixture->path, false), STATUS_OK);
    assert_int_equal(query(connection, "pragma synchronous"), 1);
    assert_int_equal(store_migrate(connection, steps, 1), STATUS_OK);
    assert_int_equal(query(connection, "select count(*) from a"), 0);
    assert_int_equal(store_migrate(connection, steps, 3), STATUS_IO);
    assert_int_equal(query(connection, "select count(*) from a"), 0);
    assert_int_equal(query(connection, "select max(number) from schema_steps"), 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(store_migrate(connection, steps, 2), STATUS_OK);
    assert_int_equal(query(connection, "select count(*) from a"), 1);
    assert_int_equal(store_migrate(connection, steps, 1), STATUS_CONFLICT);
    sqlite3_close(connection);
}

static void test_busy(void **state)
{
    struct fixture *fixture = *state;
    struct store *store;
    struct sqlite3 *connection;
    struct sqlite3 *other;
    assert_int_equal(store_open(&store, fixture->path), STATUS_OK);
    assert_int_equal(sqlite3_open(fixture->path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "begin immediate", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_BUSY); /* after STORE_BUSY_MS */
    assert_int_equal(sqlite3_exec(other, "rollback", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_OK); /* the lock was given back */
    assert_int_equal(store_end(store, false), STATUS_OK);
    sqlite3_close(other);
    store_close(store);
}

static void *insert_many(void *context)
{
    struct sqlite3 *connection;
    for (int i = 0; i < 20; i++) {
        if (store_begin(context, &connection) != STATUS_OK)
            return "begin";
        if (store_execute(connection, "update counter set x = x + 1") != STATUS_OK)
            return "update";
        if (store_end(context, i % 2 == 0) != STATUS_OK)
            return "end";
    }
    return NULL;
}

static void test_threads(void **state)
{
    struct fixture *fixture = *state;
    struct store *store;
    struct sqlite3 *connection;
    assert_int_equal(store_open(&store, fixture->path), STATUS_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    assert_int_equal(store_execute(connection, "create table counter (x integer); "
                                               "insert into counter values (0)"),
                     STATUS_OK);
    assert_int_equal(store_end(store, true), STATUS_OK);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, insert_many, store), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    assert_int_equal(query(connection, "select x from counter"), 40);
    assert_int_equal(store_end(store, false), STATUS_OK);
    store_close(store);
}

static void test_status_of_a_full_file(void **state)
{
    struct fixture *fixture = *state;
    struct store *store;
    struct sqlite3 *connection;
    assert_int_equal(store_open(&store, fixture->path), STATUS_OK);
    assert_int_equal(store_begin(store, &connection), STATUS_OK);
    query(connection, "pragma max_page_count = 1");
    assert_int_equal(store_execute(connection, "create table big as select zeroblob(1000000) x"),
                     STATUS_STORAGE_FULL);
    assert_int_equal(store_end(store, false), STATUS_OK);
    store_close(store);
}

/* A file that cannot grow stands for the full disk. */
static int full_disk_child(const char *path)
{
    struct store *store;
    struct sqlite3 *connection;
    signal(SIGXFSZ, SIG_IGN);
    if (store_open(&store, path) != STATUS_OK)
        return 1;
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &limit);
    if (store_begin(store, &connection) != STATUS_OK)
        return 2;
    enum status status = store_execute(connection, tenant_sql);
    if (store_end(store, status == STATUS_OK) == STATUS_OK && status == STATUS_OK)
        return 3;
    if (status_note()->status != STATUS_IO) /* EFBIG; ENOSPC would be STORAGE_FULL */
        return 4;
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    if (store_begin(store, &connection) != STATUS_OK ||
        store_execute(connection, tenant_sql) != STATUS_OK || store_end(store, true) != STATUS_OK)
        return 5;
    store_close(store);
    return 0;
}

static void test_full_disk(void **state)
{
    struct fixture *fixture = *state;
    int how;
    pid_t child = fork();
    if (child == 0)
        _exit(full_disk_child(fixture->path));
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_open_and_settings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_commit_and_roll_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_release_opens, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rules_of_the_schema, setup, teardown),
        cmocka_unit_test_setup_teardown(test_newer_and_foreign_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folder_is_made, setup, teardown),
        cmocka_unit_test_setup_teardown(test_migrations, setup, teardown),
        cmocka_unit_test_setup_teardown(test_busy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_status_of_a_full_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
