/* store_backup: copies of one moment beside a writer; refusals that leave nothing. */
#include "config/store_backup.h"

#include "config/store.h"
#include "tests/unit/base_kit.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    char folder[64];
    char paths[4][96]; /* a, b and their copies */
    sqlite3 *a;
    sqlite3 *b;
    struct store_backup_file files[2];
};

static int setup(void **state)
{
    static const char *const names[] = {"a.db", "b.db", "a.copy", "b.copy"};
    struct fixture *fixture = calloc(1, sizeof *fixture);
    kit_folder_make(fixture->folder);
    for (int i = 0; i < 4; i++)
        snprintf(fixture->paths[i], sizeof fixture->paths[i], "%s/%s", fixture->folder, names[i]);
    for (int i = 0; i < 2; i++) {
        sqlite3 **connection = i == 0 ? &fixture->a : &fixture->b;
        assert_int_equal(store_connect(connection, fixture->paths[i], false), STATUS_OK);
        assert_int_equal(store_execute(*connection, "create table rows (id integer primary key, "
                                                    "filler blob) strict"),
                         STATUS_OK);
        fixture->files[i] = (struct store_backup_file){fixture->paths[i], fixture->paths[2 + i], 0};
    }
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    sqlite3_close(fixture->a);
    sqlite3_close(fixture->b);
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

static int64_t query(const char *path, const char *sql)
{
    sqlite3 *connection;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &connection), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(connection, sql, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(connection);
    return number;
}

static atomic_int written;
static atomic_bool is_over;

/* First a row of a, then the one of b that refers to it, as keys come before their usage. */
static void *write_both(void *context)
{
    struct fixture *fixture = context;
    enum status status = STATUS_OK;
    while (!atomic_load(&is_over) && status == STATUS_OK) {
        status = store_execute(fixture->a, "insert into rows (filler) values (randomblob(500))");
        if (status == STATUS_OK)
            status = store_execute(fixture->b, "insert into rows (id, filler) select "
                                               "coalesce(max(id), 0) + 1, randomblob(500) from "
                                               "rows");
        atomic_fetch_add(&written, status == STATUS_OK);
    }
    return (void *)(intptr_t)status;
}

static void test_copies_of_one_moment(void **state)
{
    struct fixture *fixture = *state;
    pthread_t writer;
    void *status = NULL;
    int64_t before = 0;
    atomic_store(&written, 0);
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&writer, NULL, write_both, fixture), 0);
    for (int i = 0; i < 10; i++) {
        int64_t wanted = atomic_load(&written) + 20; /* it goes on beside each copy */
        for (int turn = 0; turn < 60000 && atomic_load(&written) < wanted; turn++)
            usleep(1000);
        assert_true(atomic_load(&written) >= wanted);
        assert_int_equal(store_backup(fixture->files, 2), STATUS_OK);
        int64_t rows[2];
        for (int file = 0; file < 2; file++) {
            struct stat about;
            const char *path = fixture->files[file].to;
            assert_int_equal(query(path, "select count(*) from pragma_integrity_check where "
                                         "integrity_check <> 'ok'"),
                             0);
            rows[file] = query(path, "select count(*) from rows");
            assert_int_equal(query(path, "select max(id) from rows"), rows[file]);
            assert_int_equal(stat(path, &about), 0);
            assert_int_equal(about.st_mode & 0777, 0600);
            assert_int_equal(unlink(path), 0);
        }
        assert_true(rows[0] == rows[1] || rows[0] == rows[1] + 1);
        assert_true(rows[1] >= wanted && rows[1] > before);
        before = rows[1];
    }
    atomic_store(&is_over, true);
    pthread_join(writer, &status);
    assert_int_equal((intptr_t)status, STATUS_OK); /* a copy holds nobody up for long */
}

static void test_refusals_leave_nothing(void **state)
{
    struct fixture *fixture = *state;
    char nowhere[128];
    struct store_backup_file files[2] = {fixture->files[0], fixture->files[1]};
    assert_int_equal(store_backup(files, 2), STATUS_OK);
    assert_true(files[0].bytes > 0);
    assert_int_equal(store_backup(files, 2), STATUS_EXISTS);
    assert_int_equal(access(files[0].to, F_OK), 0); /* what was there stays */
    assert_int_equal(unlink(files[0].to), 0);
    assert_int_equal(store_backup(files, 2), STATUS_EXISTS); /* the second one */
    assert_int_not_equal(access(files[0].to, F_OK), 0);      /* and the first is gone again */
    assert_int_equal(unlink(files[1].to), 0);
    snprintf(nowhere, sizeof nowhere, "%s/none/b", fixture->folder);
    files[1].to = nowhere;
    assert_int_equal(store_backup(files, 2), STATUS_IO);
    assert_int_not_equal(access(files[0].to, F_OK), 0);
    files[1].to = fixture->files[1].to;
    files[1].from = nowhere;
    assert_int_equal(store_backup(files, 2), STATUS_NOT_FOUND);
    files[1].from = fixture->folder;
    assert_int_equal(store_backup(files, 2), STATUS_NOT_FOUND);
    assert_int_not_equal(access(files[0].to, F_OK), 0);
    /* Nothing is left locked. */
    assert_int_equal(store_execute(fixture->a, "insert into rows values (1, NULL)"), STATUS_OK);
    assert_int_equal(store_execute(fixture->b, "insert into rows values (1, NULL)"), STATUS_OK);
}

static void test_no_database(void **state)
{
    struct fixture *fixture = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/text", fixture->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 1000; i++)
        fputs("no database at all", file);
    fclose(file);
    struct store_backup_file files[1] = {{path, fixture->files[0].to, 0}};
    assert_int_equal(store_backup(files, 1), STATUS_CORRUPT);
    assert_int_not_equal(access(files[0].to, F_OK), 0);
}

int main(void)
{
#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_FILES(test_copies_of_one_moment),
        WITH_FILES(test_refusals_leave_nothing),
        WITH_FILES(test_no_database),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
