#include "gateway/serve/serve_half.h"

#include "tests/unit/serve_kit.h"

#include <sys/prctl.h>
#include <sys/socket.h>

/* From inside the engine's sandbox, made by the very function that the engine's process calls:
 * nothing that the edge keeps can be opened, changed or looked into. */

struct prison {
    char folder[64];
    char data[80];
    bool is_plain; /* started by a plain user, who owns all the files */
    bool is_off;
};

static const char *const secrets[] = {"secrets",   "banyan.db", "banyan.db-wal",  "ledger.db",
                                      "admin.key", "edge.lock", "tls/server.key", "tls/ca.key"};
enum { SECRETS = sizeof secrets / sizeof secrets[0] };

static void prison_make(const struct prison *prison, const struct config *config,
                        struct rights *rights, int *state)
{
    int data = -1;
    char path[160];
    CHILD_CHECK(rights_open_data(config, &data) == STATUS_OK);
    snprintf(path, sizeof path, "%s/tls", prison->data);
    CHILD_CHECK(mkdir(path, 0700) == 0);
    for (size_t i = 0; i < SECRETS; i++)
        serve_kit_file(prison->data, secrets[i], 0600);
    CHILD_CHECK(rights_decide(rights, config) == STATUS_OK);
    CHILD_CHECK(rights_give_data(rights, data) == STATUS_OK);
    CHILD_CHECK(rights_open_state(rights, data, state) == STATUS_OK);
    close(data);
}

static void prison_try_files(const struct prison *prison)
{
    char path[160];
    struct stat about;
    for (size_t i = 0; i < SECRETS; i++) {
        snprintf(path, sizeof path, "%s/%s", prison->data, secrets[i]);
        CHILD_CHECK_FAILS(open(path, O_RDONLY), EACCES);
        CHILD_CHECK_FAILS(open(path, O_WRONLY), EACCES);
        CHILD_CHECK_FAILS(open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), EACCES);
        CHILD_CHECK(truncate(path, 0) < 0 && (errno == EPERM || errno == EACCES));
        CHILD_CHECK(chmod(path, 0644) < 0 && (errno == EPERM || errno == EACCES));
        CHILD_CHECK(unlink(path) < 0 && (errno == EPERM || errno == EACCES));
    }
    CHILD_CHECK_FAILS(open(prison->data, O_RDONLY | O_DIRECTORY), EACCES);
    CHILD_CHECK_FAILS(open("/etc/passwd", O_RDONLY), EACCES);
    snprintf(path, sizeof path, "/proc/%d/mem", getppid());
    CHILD_CHECK_FAILS(open(path, O_RDONLY), EACCES);
    /* Started as root the data directory cannot even be looked into. */
    snprintf(path, sizeof path, "%s/secrets", prison->data);
    if (!prison->is_plain && geteuid() == 65534)
        CHILD_CHECK_FAILS(stat(path, &about), EACCES);
}

static void prison_body(void *context)
{
    struct prison *prison = context;
    if (prison->is_plain)
        serve_kit_become(SERVE_KIT_USER);
    bool is_root = geteuid() == 0;
    struct config config = {.chat_template = "",
                            .data_dir = prison->data,
                            .sandbox = prison->is_off ? "off" : "auto",
                            .tls_cert = "",
                            .client_ca = "",
                            .admin_client_ca = "",
                            .client_crl = "",
                            .tls_key = "",
                            .config = "",
                            .redis_password_file = "",
                            .edge_user = "daemon",
                            .engine_user = "no-such-user"};
    struct rights rights;
    int state = -1;
    prison_make(prison, &config, &rights, &state);
    struct serve_half_options options = {.config = &config, .rights = &rights, .parent = getppid()};
    CHILD_CHECK(serve_half_confine_engine(&options, state) == STATUS_OK);
    int signal_number = 0;
    CHILD_CHECK(prctl(PR_GET_PDEATHSIG, &signal_number) == 0 && signal_number == SIGTERM);
    CHILD_CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    CHILD_CHECK(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0);
    char path[160];
    snprintf(path, sizeof path, "%s/secrets", prison->data);
    if (prison->is_off) {
        CHILD_CHECK(open(path, O_RDONLY) >= 0);
        return;
    }
    CHILD_CHECK(geteuid() == (is_root ? 65534 : rights.own_user));
    prison_try_files(prison);
    CHILD_CHECK_FAILS(socket(AF_UNIX, SOCK_STREAM, 0), EPERM);
    CHILD_CHECK_FAILS(socket(AF_INET, SOCK_STREAM, 0), EPERM);
    char *arguments[] = {"true", NULL};
    CHILD_CHECK_FAILS(execv("/bin/true", arguments), EPERM);
    CHILD_CHECK_FAILS(kill(getppid(), 0), EPERM);
    /* What it needs is there. */
    int ring = openat(state, "finals.ring", O_RDWR | O_CREAT, 0600);
    CHILD_CHECK(ring >= 0 && write(ring, "x", 1) == 1 && ftruncate(ring, 0) == 0);
    CHILD_CHECK(renameat(state, "finals.ring", state, "finals.ring.v1") == 0);
}

static void prison_test(bool is_plain, bool is_off)
{
    struct prison prison = {.is_plain = is_plain, .is_off = is_off};
    serve_kit_folder(prison.folder);
    snprintf(prison.data, sizeof prison.data, "%s/d", prison.folder);
    assert_int_equal(serve_kit_child(prison_body, &prison), 0);
    serve_kit_remove(prison.folder);
}

static void test_from_inside_as_root_start(void **state)
{
    (void)state;
    prison_test(false, false);
}

static void test_from_inside_as_plain_user(void **state)
{
    (void)state;
    prison_test(true, false);
}

/* The other way round: without the sandbox the same looks do reach the secrets. */
static void test_off_is_off(void **state)
{
    (void)state;
    prison_test(true, true);
}

static void orphan_body(void *context)
{
    struct prison *prison = context;
    struct config config = {.chat_template = "", .data_dir = prison->data, .sandbox = "off"};
    struct rights rights = {.own_user = geteuid()};
    struct serve_half_options options = {
        .config = &config, .rights = &rights, .parent = getppid() + 1};
    CHILD_CHECK(serve_half_confine_engine(&options, -1) == STATUS_CANCELLED);
}

static void test_a_parent_that_is_gone(void **state)
{
    (void)state;
    struct prison prison = {.is_off = true};
    snprintf(prison.data, sizeof prison.data, "/tmp");
    assert_int_equal(serve_kit_child(orphan_body, &prison), 0);
}

static void start_body(void *context)
{
    struct prison *prison = context;
    char missing[96];
    snprintf(missing, sizeof missing, "%s/none.gguf", prison->folder);
    struct config config = {.chat_template = "",
                            .data_dir = prison->data,
                            .model = "",
                            .draft_model = "",
                            .socket = "",
                            .upstream = "",
                            .upstream_kind = "auto",
                            .upstream_key_file = "",
                            .sandbox = "auto",
                            .edge_user = "",
                            .engine_user = ""};
    struct rights rights = {.own_user = geteuid(), .edge_user = geteuid()};
    struct serve_half_options options = {.config = &config, .rights = &rights};
    CHILD_CHECK(serve_half_run_engine(&options) == STATUS_INVALID);
    config.model = missing;
    CHILD_CHECK(serve_half_run_engine(&options) == STATUS_NOT_FOUND);
    CHILD_CHECK(strstr(status_note()->message, "none.gguf") != NULL);
    config.model = "/dev/null";
    config.draft_model = missing;
    CHILD_CHECK(serve_half_run_engine(&options) == STATUS_NOT_FOUND);
    config.draft_model = "";
    char longest[1100];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    config.socket = longest;
    CHILD_CHECK(serve_half_run_engine(&options) == STATUS_LIMIT);
    config.upstream = "http://127.0.0.1:1";
    CHILD_CHECK(serve_half_run_engine(&options) == STATUS_INVALID); /* beside a model */
    config.model = "";
    config.upstream = "https://127.0.0.1:1";
    CHILD_CHECK(serve_half_run_engine(&options) == STATUS_INVALID);
    config.upstream = "http://192.0.2.1:1";
    CHILD_CHECK(serve_half_run_engine(&options) == STATUS_FORBIDDEN);
    config.upstream = "http://127.0.0.1:1";
    config.upstream_key_file = missing;
    CHILD_CHECK(serve_half_run_engine(&options) == STATUS_NOT_FOUND);
    config.upstream_key_file = "/dev/null";
    CHILD_CHECK(serve_half_run_engine(&options) == STATUS_INVALID);
}

static void test_what_an_engine_cannot_start_with(void **state)
{
    (void)state;
    struct prison prison = {.is_off = true};
    serve_kit_folder(prison.folder);
    snprintf(prison.data, sizeof prison.data, "%s/d", prison.folder);
    assert_int_equal(serve_kit_child(start_body, &prison), 0);
    serve_kit_remove(prison.folder);
}

int main(void)
{
    log_open(STDERR_FILENO, LOG_ERROR, "test");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_inside_as_root_start),
        cmocka_unit_test(test_from_inside_as_plain_user),
        cmocka_unit_test(test_off_is_off),
        cmocka_unit_test(test_a_parent_that_is_gone),
        cmocka_unit_test(test_what_an_engine_cannot_start_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
