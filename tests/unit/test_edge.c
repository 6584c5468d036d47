/* edge: every way a start can fail, what a start leaves, and the drain. */
#include "tests/unit/edge_kit.h"

/* Runs an edge that must not start; returns what it answered. */
static enum status run_refused(const char *const *options, int count, int descriptor)
{
    const char *all[16] = {"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"};
    for (int i = 0; i < count; i++)
        all[4 + i] = options[i];
    char dir[64];
    edge_kit_dir(dir);
    const struct config *config = edge_kit_config(dir, all, 4 + count);
    struct edge_options run = {.config = config,
                               .public_descriptor = descriptor,
                               .admin_descriptor = -1,
                               .ready_descriptor = -1};
    enum status status = edge_run(&run);
    config_release(config);
    edge_kit_remove(dir);
    return status;
}

static void test_starts_that_fail(void **state)
{
    (void)state;
    const char *half[] = {"--tls-cert", "c.pem"};
    assert_int_equal(run_refused(half, 2, -1), STATUS_INVALID);
    edge_text_has(status_note()->message, "tls_key");
    const char *missing[] = {"--tls-cert", "/tmp/nothing.pem", "--tls-key", "/tmp/nothing.pem"};
    assert_int_equal(run_refused(missing, 4, -1), STATUS_IO);
    edge_text_has(status_note()->message, "nothing.pem");
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", kit.port);
    const char *taken[] = {"--listen", address};
    assert_int_equal(run_refused(taken, 2, -1), STATUS_EXISTS);
    edge_text_has(status_note()->message, address);
    const char *nowhere[] = {"--data-dir", "/proc/nothing/here"};
    assert_int_equal(run_refused(nowhere, 2, -1), STATUS_IO);
}

static void test_files_are_private(void **state)
{
    (void)state;
    const char *names[] = {"",           "/admin.key", "/secrets",        "/banyan.db",
                           "/ledger.db", "/tls",       "/tls/server.key", "/tls/ca.key"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        struct stat info;
        snprintf(path, sizeof path, "%s%s", kit.dir, names[i]);
        assert_int_equal(stat(path, &info), 0);
        if ((info.st_mode & 077) != 0)
            fail_msg("%s is open to others: %o", path, info.st_mode);
    }
}

/* SIGTERM: what runs is cut at the deadline with an error event, and counted. */
static void test_drain_cuts_at_its_deadline(void **state)
{
    (void)state;
    char row[64];
    struct edge_kit_connection connection = edge_kit_connect(kit.port);
    edge_kit_write(&connection, "POST", "/v1/completions", edge_kit_bearer(kit.key),
                   "{\"model\":\"endless\",\"stream\":true}");
    edge_kit_read(&connection, "tok ");
    kill(getpid(), SIGHUP); /* no reload: nothing happens */
    int before = edge_kit_rows();
    edge_kit_end();
    edge_kit_read(&connection, NULL);
    edge_text_has(answer, "data: {\"error\":{\"message\":\"The server is stopping");
    assert_null(strstr(answer, "[DONE]"));
    edge_kit_close(&connection);
    assert_int_equal(edge_kit_rows(), before + 1);
    edge_kit_last_row(row, sizeof row);
    edge_text_has(row, " cancelled 0 200");
}

/* The second start finds tenants, keys and certificate. */
static void test_a_second_start(void **state)
{
    (void)state;
    edge_kit_run();
    assert_int_equal(edge_kit_public("POST", "/v1/completions", "{\"model\":\"ok\"}"), 200);
    char key[128];
    edge_kit_file("/admin.key", key, sizeof key);
    key[strcspn(key, "\n")] = '\0';
    assert_string_equal(key, kit.admin_key);
}

static struct edge_kit_connection drained;

static void *read_to_the_end(void *context)
{
    (void)context;
    edge_kit_read(&drained, NULL);
    return NULL;
}

/* SIGTERM: an answer that ends in time ends normally. */
static void test_drain_finishes_what_ends_in_time(void **state)
{
    (void)state;
    struct edge_kit_connection other = edge_kit_connect(kit.port);
    drained = edge_kit_connect(kit.port);
    edge_kit_write(&drained, "POST", "/v1/completions", edge_kit_bearer(kit.key),
                   "{\"model\":\"brief\",\"stream\":true}");
    edge_kit_read(&drained, "tok ");
    pthread_t reader;
    kill(getpid(), SIGTERM);
    usleep(100000);
    assert_int_equal(pthread_create(&reader, NULL, read_to_the_end, NULL), 0);
    pthread_join(kit.thread, NULL);
    assert_int_equal(kit.result, STATUS_OK);
    pthread_join(reader, NULL);
    edge_text_has(answer, "data: [DONE]");
    edge_kit_close(&drained);
    edge_kit_close(&other);
    edge_kit_run(); /* for the teardown */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts_that_fail),
        cmocka_unit_test(test_files_are_private),
        cmocka_unit_test(test_drain_cuts_at_its_deadline),
        cmocka_unit_test(test_a_second_start),
        cmocka_unit_test(test_drain_finishes_what_ends_in_time),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
