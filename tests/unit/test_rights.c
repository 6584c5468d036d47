#include "gateway/serve/rights.h"

#include "tests/unit/serve_kit.h"

#include "gateway/serve/sandbox.h"

/* `root` and `nobody` are in every system; so is a name that is not. */
static const char no_user[] = "no-such-user";

static struct config config_of(const char *data_dir, const char *sandbox)
{
    static const char empty[] = "";
    return (struct config){.data_dir = data_dir,
                           .sandbox = sandbox,
                           .tls_cert = empty,
                           .client_ca = empty,
                           .admin_client_ca = empty,
                           .client_crl = empty,
                           .tls_key = empty,
                           .config = empty,
                           .redis_password_file = empty,
                           .edge_user = no_user,
                           .engine_user = no_user};
}

struct data_test {
    char folder[64];
    char data[80];
};

static void data_test_begin(struct data_test *test)
{
    serve_kit_folder(test->folder);
    snprintf(test->data, sizeof test->data, "%s/d", test->folder);
}

static void test_the_directory_is_its_owners_alone(void **state)
{
    (void)state;
    struct data_test test;
    struct stat about;
    int data = -1;
    data_test_begin(&test);
    struct config config = config_of(test.data, "auto");
    assert_int_equal(rights_open_data(&config, &data), STATUS_OK);
    assert_int_equal(fstat(data, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0700);
    close(data);
    static const mode_t open_modes[] = {0750, 0701, 0770, 0704};
    for (size_t i = 0; i < sizeof open_modes / sizeof open_modes[0]; i++) {
        assert_int_equal(chmod(test.data, open_modes[i]), 0);
        assert_int_equal(rights_open_data(&config, &data), STATUS_FORBIDDEN);
        assert_non_null(strstr(status_note()->message, "chmod 700 "));
    }
    serve_kit_file(test.folder, "file", 0600);
    char path[128];
    snprintf(path, sizeof path, "%s/file", test.folder);
    config.data_dir = path;
    assert_int_equal(rights_open_data(&config, &data), STATUS_IO);
    config.data_dir = "/proc/nowhere/d";
    assert_int_equal(rights_open_data(&config, &data), STATUS_IO);
    serve_kit_remove(test.folder);
}

static void strangers_body(void *context)
{
    struct data_test *test = context;
    struct config config = config_of(test->data, "auto");
    int data = -1;
    serve_kit_become(SERVE_KIT_USER);
    CHILD_CHECK(rights_open_data(&config, &data) == STATUS_OK);
    close(data);
}

static void test_a_strangers_directory(void **state)
{
    (void)state;
    struct data_test test;
    int data = -1;
    data_test_begin(&test);
    struct config config = config_of(test.data, "auto");
    assert_int_equal(serve_kit_child(strangers_body, &test), 0);
    bool is_mine = geteuid() != 0;
    assert_int_equal(rights_open_data(&config, &data), is_mine ? STATUS_OK : STATUS_FORBIDDEN);
    if (!is_mine)
        assert_non_null(strstr(status_note()->message, "chown -R 0 "));
    serve_kit_remove(test.folder);
}

static void test_modes_of_the_option(void **state)
{
    (void)state;
    struct rights rights;
    struct config config = config_of("/", "sometimes");
    assert_int_equal(rights_decide(&rights, &config), STATUS_INVALID);
    assert_string_equal(status_note()->param, "sandbox");
    config.sandbox = "off";
    assert_int_equal(rights_decide(&rights, &config), STATUS_OK);
    assert_false(rights.is_on);
    assert_string_equal(rights.sandbox, "off");
    assert_int_equal(rights.engine_user, geteuid());
    config.sandbox = "auto";
    assert_int_equal(rights_decide(&rights, &config), STATUS_OK);
    assert_true(rights.is_on);
    assert_string_equal(rights.sandbox, sandbox_landlock() > 0 ? "landlock" : "none");
    assert_int_equal(rights.edge_user, geteuid());
    assert_int_equal(rights.engine_user, geteuid() == 0 ? 65534 : geteuid());
    /* Root without the users, or a kernel without Landlock, is less than required. */
    config.sandbox = "required";
    bool is_less = geteuid() == 0 || sandbox_landlock() == 0;
    assert_int_equal(rights_decide(&rights, &config), is_less ? STATUS_FORBIDDEN : STATUS_OK);
}

/* The rest needs root, who can become somebody; a plain user has only oneself. */
static void decide_body(void *context)
{
    struct data_test *test = context;
    struct rights rights;
    struct config config = config_of(test->data, "auto");
    int data = -1;
    config.edge_user = "nobody";
    CHILD_CHECK(rights_open_data(&config, &data) == STATUS_OK);
    if (geteuid() != 0) {
        CHILD_CHECK(rights_decide(&rights, &config) == STATUS_OK);
        CHILD_CHECK(rights.edge_user == geteuid() && rights.engine_user == geteuid());
        return;
    }
    /* The engine's stand-in is nobody, which may not be the edge too. */
    CHILD_CHECK(rights_decide(&rights, &config) == STATUS_INVALID);
    config.engine_user = "daemon";
    CHILD_CHECK(rights_decide(&rights, &config) == STATUS_OK);
    CHILD_CHECK(rights.edge_user == 65534 && rights.engine_user == 1);
    config.engine_user = "root"; /* root is nobody's idea of a user of the engine's own */
    config.edge_user = "daemon";
    CHILD_CHECK(rights_decide(&rights, &config) == STATUS_OK);
    CHILD_CHECK(rights.edge_user == 1 && rights.engine_user == 65534);
    /* What the edge could not open keeps it root. */
    static const char secret[] = "/etc/shadow";
    config.tls_key = secret;
    CHILD_CHECK(rights_decide(&rights, &config) == STATUS_OK && rights.edge_user == 0);
    config.tls_key = "";
    config.config = secret;
    CHILD_CHECK(rights_decide(&rights, &config) == STATUS_OK && rights.edge_user == 0);
    config.config = "";
    CHILD_CHECK(chmod(test->folder, 0700) == 0);
    CHILD_CHECK(rights_decide(&rights, &config) == STATUS_OK && rights.edge_user == 0);
    config.sandbox = "required";
    CHILD_CHECK(rights_decide(&rights, &config) == STATUS_FORBIDDEN);
}

static void test_who_runs_as_whom(void **state)
{
    (void)state;
    struct data_test test;
    data_test_begin(&test);
    assert_int_equal(serve_kit_child(decide_body, &test), 0);
    serve_kit_remove(test.folder);
}

static void give_owner(const char *folder, const char *name, struct stat *about)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHILD_CHECK(lstat(path, about) == 0);
}

/* Files of the directory change hands; links, second names and other directories do not. */
static void give_body(void *context)
{
    struct data_test *test = context;
    struct config config = config_of(test->data, "auto");
    bool is_root = geteuid() == 0;
    uid_t user = is_root ? SERVE_KIT_USER : geteuid();
    uid_t engine = is_root ? SERVE_KIT_OTHER : geteuid();
    struct rights rights = {.is_on = true,
                            .own_user = geteuid(),
                            .edge_user = user,
                            .edge_group = is_root ? SERVE_KIT_USER : getegid(),
                            .engine_user = engine,
                            .engine_group = is_root ? SERVE_KIT_OTHER : getegid()};
    struct stat about;
    char from[160];
    char to[160];
    int data = -1;
    int engine_state = -1;
    CHILD_CHECK(rights_open_data(&config, &data) == STATUS_OK);
    serve_kit_file(test->data, "banyan.db", 0600);
    serve_kit_file(test->folder, "elsewhere", 0600);
    serve_kit_file(test->folder, "linked", 0600);
    snprintf(to, sizeof to, "%s/tls", test->data);
    CHILD_CHECK(mkdir(to, 0700) == 0);
    serve_kit_file(to, "server.key", 0600);
    snprintf(to, sizeof to, "%s/other", test->data);
    CHILD_CHECK(mkdir(to, 0700) == 0);
    snprintf(from, sizeof from, "%s/elsewhere", test->folder);
    snprintf(to, sizeof to, "%s/link", test->data);
    CHILD_CHECK(symlink(from, to) == 0);
    snprintf(from, sizeof from, "%s/linked", test->folder);
    snprintf(to, sizeof to, "%s/hard", test->data);
    CHILD_CHECK(link(from, to) == 0);
    for (int i = 0; i < 2; i++) { /* twice is once */
        CHILD_CHECK(rights_give_data(&rights, data) == STATUS_OK);
        CHILD_CHECK(rights_open_state(&rights, data, &engine_state) == STATUS_OK);
        close(engine_state);
    }
    static const char *const given[] = {"", "banyan.db", "tls", "tls/server.key"};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        give_owner(test->data, given[i], &about);
        CHILD_CHECK(about.st_uid == user);
    }
    static const char *const kept[] = {"hard", "link", "other", "../elsewhere"};
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        give_owner(test->data, kept[i], &about);
        CHILD_CHECK(about.st_uid == geteuid());
    }
    give_owner(test->data, "engine", &about);
    CHILD_CHECK(about.st_uid == engine && (about.st_mode & 07777) == (is_root ? 0710 : 0700));
    /* Back to root, when the users have gone: the former owner's files as well. */
    rights.edge_user = geteuid();
    rights.edge_group = getegid();
    CHILD_CHECK(rights_give_data(&rights, data) == STATUS_OK);
    give_owner(test->data, "banyan.db", &about);
    CHILD_CHECK(about.st_uid == geteuid());
}

static void test_the_directory_changes_hands(void **state)
{
    (void)state;
    struct data_test test;
    data_test_begin(&test);
    assert_int_equal(serve_kit_child(give_body, &test), 0);
    serve_kit_remove(test.folder);
}

static void test_the_engines_directory_is_no_link(void **state)
{
    (void)state;
    struct data_test test;
    char link[128];
    int data = -1;
    int engine_state = -1;
    data_test_begin(&test);
    struct config config = config_of(test.data, "off");
    struct rights rights;
    assert_int_equal(rights_decide(&rights, &config), STATUS_OK);
    assert_int_equal(rights_open_data(&config, &data), STATUS_OK);
    snprintf(link, sizeof link, "%s/engine", test.data);
    assert_int_equal(symlink("/tmp", link), 0);
    assert_int_equal(rights_open_state(&rights, data, &engine_state), STATUS_IO);
    close(data);
    serve_kit_remove(test.folder);
}

int main(void)
{
    log_open(STDERR_FILENO, LOG_ERROR, "test");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_directory_is_its_owners_alone),
        cmocka_unit_test(test_a_strangers_directory),
        cmocka_unit_test(test_modes_of_the_option),
        cmocka_unit_test(test_who_runs_as_whom),
        cmocka_unit_test(test_the_directory_changes_hands),
        cmocka_unit_test(test_the_engines_directory_is_no_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
