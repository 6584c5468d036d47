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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_admins_enter),
        cmocka_unit_test(test_unknown_paths),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_a_key_without_inference),
        cmocka_unit_test(test_guesses),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
