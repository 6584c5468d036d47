#include "auth/credential/auth_file.h"

#include "tests/unit/base_kit.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "config/base/limits.h"

static int setup(void **state)
{
    char *folder = calloc(1, 64);
    kit_folder_make(folder);
    *state = folder;
    return 0;
}

static int teardown(void **state)
{
    kit_folder_remove(*state);
    free(*state);
    return 0;
}

static int count_files(const char *path)
{
    DIR *folder = opendir(path);
    int count = -2; /* . and .. */
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

static void test_write_and_read(void **state)
{
    const char *folder = *state;
    struct buffer text;
    struct stat about;
    char path[128];
    buffer_init(&text, 1000);
    assert_int_equal(auth_file_read(folder, "name", &text), STATUS_NOT_FOUND);
    assert_int_equal(auth_file_write(folder, "name", SLICE("first"), false), STATUS_OK);
    assert_int_equal(auth_file_write(folder, "name", SLICE("second"), false), STATUS_EXISTS);
    assert_int_equal(auth_file_read(folder, "name", &text), STATUS_OK);
    assert_string_equal(text.bytes, "first");
    assert_int_equal(auth_file_write(folder, "name", SLICE("third"), true), STATUS_OK);
    buffer_clear(&text);
    assert_int_equal(auth_file_read(folder, "name", &text), STATUS_OK);
    assert_string_equal(text.bytes, "third");
    snprintf(path, sizeof path, "%s/name", folder);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(about.st_nlink, 1);
    assert_int_equal(count_files(folder), 1); /* no temporary one */
    assert_int_equal(auth_file_remove(folder, "name"), STATUS_OK);
    assert_int_equal(auth_file_remove(folder, "name"), STATUS_OK);
    assert_int_equal(count_files(folder), 0);
    buffer_deinit(&text);
}

static void test_limit(void **state)
{
    char bytes[LIMIT_SECRETS_BYTES + 1];
    struct buffer text;
    memset(bytes, 'x', sizeof bytes);
    buffer_init(&text, 1000);
    struct slice most = {bytes, LIMIT_SECRETS_BYTES};
    struct slice more = {bytes, LIMIT_SECRETS_BYTES + 1};
    assert_int_equal(auth_file_write(*state, "most", most, false), STATUS_OK);
    assert_int_equal(auth_file_read(*state, "most", &text), STATUS_OK);
    assert_int_equal(text.length, LIMIT_SECRETS_BYTES);
    assert_int_equal(auth_file_write(*state, "more", more, false), STATUS_OK);
    assert_int_equal(auth_file_read(*state, "more", &text), STATUS_CORRUPT);
    buffer_deinit(&text);
}

static void test_what_is_not_read(void **state)
{
    const char *folder = *state;
    char path[128];
    struct buffer text;
    buffer_init(&text, 1000);
    assert_int_equal(auth_file_write(folder, "name", SLICE("x"), false), STATUS_OK);
    snprintf(path, sizeof path, "%s/name", folder);
    static const unsigned open_modes[] = {0640, 0604, 0620, 0602, 0610, 0666};
    for (size_t i = 0; i < sizeof open_modes / sizeof open_modes[0]; i++) {
        assert_int_equal(chmod(path, open_modes[i]), 0);
        assert_int_equal(auth_file_read(folder, "name", &text), STATUS_FORBIDDEN);
    }
    assert_int_equal(chmod(path, 0400), 0);
    assert_int_equal(auth_file_read(folder, "name", &text), STATUS_OK);
    if (geteuid() == 0) { /* who else could give a file away */
        assert_int_equal(chown(path, 54321, 0), 0);
        assert_int_equal(auth_file_read(folder, "name", &text), STATUS_FORBIDDEN);
        assert_non_null(strstr(status_note()->message, "chown 0 name"));
    }
    snprintf(path, sizeof path, "%s/link", folder);
    assert_int_equal(symlink("name", path), 0);
    assert_int_equal(auth_file_read(folder, "link", &text), STATUS_IO);
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(auth_file_read(folder, "pipe", &text), STATUS_CORRUPT); /* and does not hang */
    assert_int_equal(auth_file_read("/nowhere", "x", &text), STATUS_IO);
    assert_null(strstr(status_note()->message, "nowhere"));
    buffer_deinit(&text);
}

static void test_full_disk_leaves_nothing(void **state)
{
    const char *folder = *state;
    int how;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){2, 2});
        _exit((int)auth_file_write(folder, "name", SLICE("three"), true));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(WEXITSTATUS(how), STATUS_IO);
    assert_int_equal(count_files(folder), 0);
}

static void test_folder_is_made(void **state)
{
    char folder[128];
    struct stat about;
    snprintf(folder, sizeof folder, "%s/new", (const char *)*state);
    assert_int_equal(auth_file_write(folder, "name", SLICE("x"), false), STATUS_OK);
    assert_int_equal(stat(folder, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    kit_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_write_and_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folder_is_made, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
