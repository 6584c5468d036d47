/* admin_keys: create, list and revoke over the config API; a value is shown once. */
#include "gateway/admin/admin_keys.h"

#include "tests/unit/edge_kit.h"

static char keys_path[128];

static void make(const char *body, char value[128], char id[64])
{
    snprintf(keys_path, sizeof keys_path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    assert_int_equal(edge_kit_admin("POST", keys_path, body), 201);
    edge_kit_member("key", value, 128);
    edge_kit_member("id", id, 64);
}

static void test_value_is_shown_once(void **state)
{
    (void)state;
    char value[128], id[64];
    make("{\"name\":\"laptop\"}", value, id);
    edge_text_has(answer, "\"object\":\"key\"");
    edge_text_has(answer, "\"name\":\"laptop\"");
    edge_text_has(answer, "\"expires_at\":null,\"revoked_at\":null,\"last_used_at\":null,"
                          "\"rotated_to\":null,\"revision\":1");
    edge_text_has(answer, "\"scopes\":[\"usage:read\",\"inference\"]");
    assert_int_equal(strncmp(value, "sk-by-", 6), 0);
    assert_int_equal(edge_kit_admin("GET", keys_path, ""), 200);
    edge_text_has(answer, id);
    edge_text_has(answer, "\"redacted\":\"sk-by-");
    assert_null(strstr(answer, value));
    assert_null(strstr(answer, "\"key\":"));
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=100", ""), 200);
    assert_null(strstr(answer, value));
}

static void test_revoked_key_opens_nothing(void **state)
{
    (void)state;
    char value[128], id[64], path[192];
    make("", value, id); /* a body may be left out: the name is optional */
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", edge_kit_bearer(value), ""), 200);
    snprintf(path, sizeof path, "%s/%s", keys_path, id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    assert_null(strstr(answer, "\"revoked_at\":null"));
    edge_text_has(answer, "\"revision\":2");
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", edge_kit_bearer(value), ""), 401);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/models", edge_kit_bearer(kit.key), ""),
                     200);
}

static void test_refusals(void **state)
{
    (void)state;
    char path[192];
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/tenants/tnt_nothere/keys", "{}"), 404);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/tenants/tnt_nothere/keys", ""), 404);
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys/key_nothere", kit.tenant_id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 404);
    snprintf(path, sizeof path, "/admin/v1/tenants/tnt_nothere/keys/%s", kit.key_id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 404);
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    assert_int_equal(edge_kit_admin("POST", path, "{\"scopes\":[]}"), 400);
    edge_text_has(answer, "\"param\":\"scopes\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_value_is_shown_once),
        cmocka_unit_test(test_revoked_key_opens_nothing),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
