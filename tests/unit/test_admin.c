/* admin: routes, keys and scopes of the config API. */
#include "gateway/admin/admin.h"

#include "tests/unit/edge_kit.h"

static void test_only_admins_enter(void **state)
{
    (void)state;
    const char *paths[] = {"/admin/v1/tenants", "/admin/v1/audit", "/admin/v1/config", "/metrics",
                           "/v1/metrics"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_int_equal(edge_kit_ask(kit.admin_port, "GET", paths[i], "", ""), 401);
        edge_text_has(answer, "\"code\":\"invalid_api_key\"");
        assert_int_equal(
            edge_kit_ask(kit.admin_port, "GET", paths[i], edge_kit_bearer(kit.key), ""), 401);
        assert_int_equal(edge_kit_admin("GET", paths[i], ""), 200);
        edge_text_has(answer, "cache-control: no-store");
        edge_text_has(answer, "x-request-id: req_");
    }
    assert_int_equal(edge_kit_ask(kit.admin_port, "GET", "/health", "", ""), 200);
}

static void test_unknown_paths(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/nothing", ""), 404);
    assert_int_equal(edge_kit_admin("GET", "/v1/models", ""), 404);
    assert_int_equal(edge_kit_admin("DELETE", "/admin/v1/tenants", ""), 405);
    edge_text_has(answer, "allow: POST, GET");
    assert_int_equal(edge_kit_admin("PUT", "/admin/v1/audit", ""), 405);
    edge_text_has(answer, "allow: GET");
}

/* A key of one scope opens what the scope names, and nothing else. */
static void test_scopes(void **state)
{
    (void)state;
    static const struct {
        const char *scope;
        int read, write, keys, metrics;
    } rows[] = {
        {"admin:read", 200, 403, 403, 403}, {"admin:write", 403, 201, 403, 403},
        {"admin:keys", 403, 403, 201, 403}, {"metrics:read", 403, 403, 403, 200},
        {"usage:read", 403, 403, 403, 403},
    };
    char path[128];
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char value[LIMIT_KEY_BYTES];
        char body[96];
        snprintf(body, sizeof body, "{\"scopes\":[\"%s\"]}", rows[i].scope);
        assert_int_equal(edge_kit_admin("POST", "/admin/v1/admin-keys", body), 201);
        edge_kit_member("key", value, sizeof value);
        const char *headers = edge_kit_bearer(value);
        snprintf(body, sizeof body, "{\"name\":\"scope-%zu\"}", i);
        assert_int_equal(edge_kit_ask(kit.admin_port, "GET", "/admin/v1/tenants", headers, ""),
                         rows[i].read);
        assert_int_equal(edge_kit_ask(kit.admin_port, "POST", "/admin/v1/tenants", headers, body),
                         rows[i].write);
        assert_int_equal(edge_kit_ask(kit.admin_port, "POST", path, headers, "{}"), rows[i].keys);
        assert_int_equal(edge_kit_ask(kit.admin_port, "GET", "/metrics", headers, ""),
                         rows[i].metrics);
        if (rows[i].metrics == 403)
            edge_text_has(answer, "\"code\":\"insufficient_scope\"");
    }
}

/* A tenant's key without inference generates nothing; what costs nothing it may. */
static void test_a_key_without_inference(void **state)
{
    (void)state;
    char path[128], value[LIMIT_KEY_BYTES];
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    assert_int_equal(edge_kit_admin("POST", path, "{\"scopes\":[\"usage:read\"]}"), 201);
    edge_kit_member("key", value, sizeof value);
    const char *headers = edge_kit_bearer(value);
    static const char *const routes[] = {"/v1/completions", "/v1/chat/completions"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(edge_kit_ask(kit.port, "POST", routes[i], headers,
                                      "{\"model\":\"ok\",\"stream\":true}"),
                         403);
        edge_text_has(answer, "\"code\":\"insufficient_scope\"");
    }
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", headers, ""), 200);
}

/* Wrong keys become 429, right ones pass, missing ones are no guesses. The log names the address,
 * and never a key. */
static void test_guesses(void **state)
{
    (void)state;
    static const char wrong[] = "authorization: Bearer sk-by-admin-guessed\r\n";
    int refused = 0;
    int limited = 0;
    for (int i = 0; i < 3 * LIMIT_ADMIN_FAILURES; i++) {
        int code = edge_kit_ask(kit.admin_port, "GET", "/admin/v1/tenants", wrong, "");
        refused += code == 401;
        limited += code == 429;
    }
    assert_int_equal(refused + limited, 3 * LIMIT_ADMIN_FAILURES);
    assert_true(limited >= LIMIT_ADMIN_FAILURES);
    edge_text_has(answer, "\"type\":\"rate_limit_error\"");
    edge_text_has(answer, "retry-after: 10");
    assert_int_equal(edge_kit_ask(kit.admin_port, "GET", "/admin/v1/tenants", "", ""), 401);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/tenants", ""), 200);
    static char log[1 << 20];
    edge_kit_file(".log", log, sizeof log);
    edge_text_has(log, "\"event\":\"admin_denied\"");
    edge_text_has(log, "\"peer\":\"127.0.0.1:");
    assert_null(strstr(log, "guessed"));
}

/* --- last uses, with a loop of the test's own --- */

struct flush_test {
    struct loop *loop;
    struct loop_timer *timer;
    struct sqlite3 *file;
    int looks;
    bool is_written;
};

static void flush_look(void *context)
{
    struct flush_test *test = context;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_prepare_v2(test->file, "select max(last_used_at_s) from keys", -1,
                                        &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    test->is_written = sqlite3_column_int64(statement, 0) > 1700000000;
    sqlite3_finalize(statement);
    if (test->is_written || ++test->looks == 5000)
        loop_stop(test->loop);
    else
        loop_timer_arm(test->timer, 2);
}

/* Uses reach the file by themselves, again and again, and at the end without waiting. */
static void test_last_uses_are_written(void **state)
{
    (void)state;
    char path[128], dir[64], value[LIMIT_KEY_BYTES] = "";
    struct store *store;
    struct auth *auth;
    struct principal principal;
    bool is_made;
    struct flush_test test = {0};
    edge_kit_dir(dir);
    snprintf(path, sizeof path, "%s/banyan.db", dir);
    assert_int_equal(store_open(&store, path), STATUS_OK);
    assert_int_equal(auth_open(&auth, dir, store), STATUS_OK);
    assert_int_equal(auth_bootstrap(auth, dir, &is_made), STATUS_OK);
    assert_int_equal(sqlite3_open(path, &test.file), SQLITE_OK);
    sqlite3_busy_timeout(test.file, 10000);
    snprintf(path, sizeof path, "%s/admin.key", dir);
    FILE *file = fopen(path, "r");
    assert_non_null(fgets(value, sizeof value, file));
    fclose(file);
    struct slice key = {value, strcspn(value, "\n")};
    for (int round = 0; round < 2; round++) {
        struct admin admin = {.auth = auth, .flush_ms = round == 0 ? 1 : 0};
        assert_int_equal(loop_create(&test.loop), STATUS_OK);
        test.timer = loop_timer_create(test.loop, flush_look, &test);
        test.looks = 0;
        test.is_written = false;
        assert_int_equal(
            sqlite3_exec(test.file, "update keys set last_used_at_s = 0", NULL, NULL, NULL),
            SQLITE_OK);
        assert_int_equal(admin_open(&admin, test.loop), STATUS_OK);
        usleep(1100000 * (useconds_t)round); /* a use is noted once a second */
        const struct auth_credential credential = {.text = key};
        assert_int_equal(auth_authenticate(auth, &credential, true, &principal), STATUS_OK);
        if (round == 1) /* every minute, so not now, but at the end */
            admin_close(&admin);
        loop_timer_arm(test.timer, 0);
        loop_run(test.loop);
        assert_true(test.is_written);
        if (round == 0)
            admin_close(&admin);
        admin_close(&admin); /* twice is fine */
        loop_timer_destroy(test.timer);
        loop_destroy(test.loop);
    }
    sqlite3_close(test.file);
    auth_close(auth);
    store_close(store);
    edge_kit_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_admins_enter),
        cmocka_unit_test(test_unknown_paths),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_a_key_without_inference),
        cmocka_unit_test(test_guesses),
        cmocka_unit_test(test_last_uses_are_written),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
