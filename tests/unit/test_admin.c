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

/* A key of one scope opens what the scope names, and nothing else. The key is made in the directory
 * itself: the config API has no route that makes admin keys. */
static void test_scopes(void **state)
{
    (void)state;
    static const struct {
        uint32_t scope;
        int read, write, keys, metrics;
    } rows[] = {
        {AUTH_SCOPE_ADMIN_READ, 200, 403, 403, 403}, {AUTH_SCOPE_ADMIN_WRITE, 403, 201, 403, 403},
        {AUTH_SCOPE_ADMIN_KEYS, 403, 403, 201, 403}, {AUTH_SCOPE_METRICS_READ, 403, 403, 403, 200},
        {AUTH_SCOPE_USAGE_READ, 403, 403, 403, 403},
    };
    char values[sizeof rows / sizeof rows[0]][LIMIT_KEY_BYTES];
    char path[128];
    edge_kit_end();
    struct store *store;
    struct auth *auth;
    snprintf(path, sizeof path, "%s/banyan.db", kit.dir);
    assert_int_equal(store_open(&store, path), STATUS_OK);
    assert_int_equal(auth_open(&auth, kit.dir, store), STATUS_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct audit_actor actor = {.peer = "test"};
        struct tenant_key key;
        assert_int_equal(tenants_key_create(auth_tenants(auth), &actor, (struct slice){0},
                                            SLICE("scoped"), rows[i].scope, &key, values[i]),
                         STATUS_OK);
    }
    auth_close(auth);
    store_close(store);
    edge_kit_run();
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *headers = edge_kit_bearer(values[i]);
        char body[64];
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_admins_enter),
        cmocka_unit_test(test_unknown_paths),
        cmocka_unit_test(test_scopes),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
