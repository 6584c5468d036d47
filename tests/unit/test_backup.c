/* backup: what is copied and what only when asked; words; refusals that leave nothing. */
#include "gateway/serve/backup.h"

#include "config/store.h"
#include "tests/unit/base_kit.h"

#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* In place of the system's: what has been made sure of, in its order. */
static char synced[2048];

int fsync(int descriptor)
{
    char link[40];
    size_t length = strlen(synced);
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t more = readlink(link, synced + length, sizeof synced - length - 2);
    assert_true(more > 0);
    snprintf(synced + length + more, 2, "\n");
    return (int)syscall(SYS_fsync, descriptor);
}

struct fixture {
    char folder[64];
    char data[96];
    char to[96];
};

static const char *in(const char *folder, const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void make_text(const char *folder, const char *name, mode_t mode)
{
    FILE *file = fopen(in(folder, name), "w");
    assert_non_null(file);
    fputs(name, file);
    fclose(file);
    assert_int_equal(chmod(in(folder, name), mode), 0);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    kit_folder_make(fixture->folder);
    snprintf(fixture->data, sizeof fixture->data, "%s/data", fixture->folder);
    snprintf(fixture->to, sizeof fixture->to, "%s/to", fixture->folder);
    static const char *const databases[] = {"banyan.db", "ledger.db"};
    for (int i = 0; i < 2; i++) {
        sqlite3 *connection;
        assert_int_equal(store_connect(&connection, in(fixture->data, databases[i]), false),
                         STATUS_OK);
        assert_int_equal(store_execute(connection, "create table t (x) "), STATUS_OK);
        sqlite3_close(connection);
    }
    make_text(fixture->data, "secrets", 0600);
    make_text(fixture->data, "admin.key", 0600);
    make_text(fixture->data, "edge.lock", 0600);
    assert_int_equal(mkdir(in(fixture->data, "tls"), 0755), 0);
    make_text(fixture->data, "tls/ca.crt", 0644);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    static const char *const files[] = {"data/banyan.db", "data/ledger.db", "data/secrets",
                                        "data/admin.key", "data/edge.lock", "data/tls/ca.crt",
                                        "to/banyan.db",   "to/ledger.db",   "to/secrets",
                                        "to/admin.key",   "to/tls/ca.crt"};
    static const char *const folders[] = {"data/tls", "to/tls", "data", "to"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(in(fixture->folder, files[i]));
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        rmdir(in(fixture->folder, folders[i]));
    kit_folder_remove(fixture->folder);
    free(fixture);
    return 0;
}

/* -1: not there. */
static int mode_of(const char *folder, const char *name)
{
    struct stat about;
    return stat(in(folder, name), &about) == 0 ? (int)(about.st_mode & 0777) : -1;
}

static enum status run(struct fixture *fixture, const char *third)
{
    const char *const words[] = {"--data-dir", fixture->data, "--to", fixture->to, third};
    return backup_run(third != NULL ? 5 : 4, words, NULL);
}

static void test_without_secrets(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(run(fixture, NULL), STATUS_OK);
    assert_int_equal(mode_of(fixture->to, ""), 0700);
    assert_int_equal(mode_of(fixture->to, "banyan.db"), 0600);
    assert_int_equal(mode_of(fixture->to, "ledger.db"), 0600);
    assert_int_equal(mode_of(fixture->to, "secrets"), -1);
    assert_int_equal(mode_of(fixture->to, "admin.key"), -1);
    assert_int_equal(mode_of(fixture->to, "tls"), -1);
    assert_int_equal(mode_of(fixture->to, "ledger.db-wal"), -1);
    assert_int_equal(run(fixture, NULL), STATUS_EXISTS);
    assert_int_equal(mode_of(fixture->to, "banyan.db"), 0600); /* and stays */
}

static void test_with_secrets(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(run(fixture, "--with-secrets"), STATUS_OK);
    assert_int_equal(mode_of(fixture->to, "secrets"), 0600);
    assert_int_equal(mode_of(fixture->to, "admin.key"), 0600);
    assert_int_equal(mode_of(fixture->to, "tls"), 0700);
    assert_int_equal(mode_of(fixture->to, "tls/ca.crt"), 0600);
    assert_int_equal(mode_of(fixture->to, "edge.lock"), -1);
    char text[32] = "";
    FILE *file = fopen(in(fixture->to, "secrets"), "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    assert_string_equal(text, "secrets");
}

/* Each folder behind what was made in it; the one around the copy last. */
static void test_names_outlive_a_power_cut(void **state)
{
    struct fixture *fixture = *state;
    char wanted[4 * PATH_MAX + 64];
    char real[PATH_MAX];
    synced[0] = '\0';
    assert_int_equal(run(fixture, "--with-secrets"), STATUS_OK);
    assert_non_null(realpath(fixture->folder, real));
    snprintf(wanted, sizeof wanted, "%s/to/tls/ca.crt\n%s/to/tls\n%s/to\n%s\n", real, real, real,
             real);
    const char *found = strstr(synced, wanted);
    assert_non_null(found);
    assert_int_equal(strlen(found), strlen(wanted)); /* nothing behind it */
}

static void test_what_fails_leaves_nothing(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(unlink(in(fixture->data, "ledger.db")), 0);
    assert_int_equal(run(fixture, "--with-secrets"), STATUS_NOT_FOUND);
    assert_int_equal(mode_of(fixture->to, ""), -1);
    assert_int_equal(mode_of(fixture->data, "ledger.db"), -1); /* nor makes anything */
}

static void test_words(void **state)
{
    struct fixture *fixture = *state;
    static const char *const wrong[][2] = {
        {"--to", NULL}, {"--data-dir", NULL}, {"--force", NULL}, {"--to", ""}, {"away", NULL}};
    assert_int_equal(backup_run(0, NULL, fixture->data), STATUS_INVALID);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(backup_run(wrong[i][1] != NULL ? 2 : 1, wrong[i], fixture->data),
                         STATUS_INVALID);
    const char *const words[] = {"--to", fixture->to};
    assert_int_equal(backup_run(2, words, fixture->data), STATUS_OK); /* as the environment says */
}

int main(void)
{
#define WITH_DATA(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_DATA(test_without_secrets),
        WITH_DATA(test_with_secrets),
        WITH_DATA(test_names_outlive_a_power_cut),
        WITH_DATA(test_what_fails_leaves_nothing),
        WITH_DATA(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
