/* admin_limits: shapes, refusals, dry runs, revisions and kept answers of limits and plans. */
#include "gateway/admin/admin_limits.h"

#include "tests/unit/edge_kit.h"

#define PLANS "/admin/v1/plans"

static void limits_path(char path[160], const char *query)
{
    snprintf(path, 160, "/admin/v1/tenants/%s/limits%s", kit.tenant_id, query);
}

static void test_limits_of_a_tenant(void **state)
{
    (void)state;
    char path[160], dry[160], plan[64], body[256];
    limits_path(path, "");
    limits_path(dry, "?dry_run=true");
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, "{\"object\":\"limits\",\"tenant_id\":\"");
    edge_text_has(answer, "\"plan\":null,\"requests_per_minute\":null,");
    edge_text_has(answer, "\"cached_input_percent\":null,\"on_limit\":null,"
                          "\"weight\":null,\"default_class\":null,\"best_class\":null,"
                          "\"revision\":0,\"effective\":{\"object\":\"limits.effective\","
                          "\"cached_input_percent\":0}}");
    assert_int_equal(edge_kit_admin("POST", PLANS, "{\"name\":\"small\",\"kv_tokens\":9}"), 201);
    edge_kit_member("id", plan, sizeof plan);
    snprintf(body, sizeof body,
             "{\"plan\":\"%s\",\"tokens_per_day\":{\"limit\":5,\"mode\":\"shadow\"},"
             "\"tokens_per_minute\":{\"limit\":6},\"cached_input_percent\":10}",
             plan);
    assert_int_equal(edge_kit_admin("PUT", dry, body), 200);
    edge_text_has(answer, "\"dry_run\":true}");
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, "\"revision\":0,");
    assert_int_equal(edge_kit_admin("PUT", path, body), 200);
    edge_text_has(answer, "etag: \"1\"");
    edge_text_has(answer, "\"tokens_per_minute\":6,");
    edge_text_has(answer, "\"tokens_per_day\":{\"limit\":5,\"mode\":\"shadow\"}");
    edge_text_has(answer, "\"effective\":{\"object\":\"limits.effective\",\"tokens_per_minute\":6,"
                          "\"kv_tokens\":9,\"tokens_per_day\":{\"limit\":5,\"mode\":\"shadow\"},"
                          "\"cached_input_percent\":10}}");
    assert_int_equal(edge_kit_admin("PUT", path, "{\"plan\":null,\"kv_tokens\":null}"), 200);
    edge_text_has(answer, "\"revision\":2,");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "\"type\":\"limits.updated\"");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/tenants/tnt_x/limits", ""), 404);
    assert_int_equal(edge_kit_admin("PUT", path, "{\"plan\":\"pln_x\"}"), 404);
    edge_text_has(answer, "\"param\":\"plan\"");
    assert_int_equal(edge_kit_admin("PUT", path,
                                    "{\"plan\":\"0123456789012345678901234567890"
                                    "1234567890123456789\"}"),
                     404);
    assert_int_equal(edge_kit_admin("PUT", path, "{\"kv_tokens\":{\"mode\":\"shadow\"}}"), 400);
    edge_text_has(answer, "\"param\":\"kv_tokens.limit\"");
}

static void test_limits_of_a_key(void **state)
{
    (void)state;
    char keys[160], path[256], key[64];
    snprintf(keys, sizeof keys, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    assert_int_equal(edge_kit_admin("POST", keys, "{\"name\":\"limited\"}"), 201);
    edge_kit_member("id", key, sizeof key);
    snprintf(path, sizeof path, "%s/%s/limits", keys, key);
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, "{\"object\":\"key.limits\",\"tenant_id\":\"");
    edge_text_has(answer, "\"revision\":0}");
    assert_int_equal(edge_kit_admin("PUT", path, "{\"kv_tokens\":{\"limit\":9}}"), 200);
    edge_text_has(answer, "etag: \"1\"");
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, "\"kv_tokens\":9,");
    edge_text_has(answer, "\"revision\":1}");
    assert_int_equal(edge_kit_admin("PUT", path, "{\"plan\":null}"), 400);
    edge_text_has(answer, "\"param\":\"plan\"");
    assert_int_equal(edge_kit_admin("PUT", path, "{\"kv_tokens\":0}"), 400);
    edge_text_has(answer, "\"param\":\"kv_tokens\"");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "\"type\":\"key.limits_updated\"");
    snprintf(path, sizeof path, "%s/key_x/limits", keys);
    assert_int_equal(edge_kit_admin("GET", path, ""), 404);
    assert_int_equal(edge_kit_admin("PUT", path, "{\"kv_tokens\":9}"), 404);
    snprintf(path, sizeof path, "/admin/v1/tenants/tnt_x/keys/%s/limits", key);
    assert_int_equal(edge_kit_admin("PUT", path, "{\"kv_tokens\":9}"), 404);
}

static void test_life_of_a_plan(void **state)
{
    (void)state;
    char id[64], same[64], path[160], headers[512];
    snprintf(headers, sizeof headers, "authorization: Bearer %s\r\nidempotency-key: plan-1\r\n",
             kit.admin_key);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(edge_kit_ask(kit.admin_port, "POST", PLANS, headers,
                                      "{\"name\":\"large\",\"requests_per_minute\":60}"),
                         201);
        edge_kit_member("id", i == 0 ? id : same, sizeof id);
    }
    assert_string_equal(id, same);
    edge_text_has(answer, "idempotent-replayed: true");
    edge_text_has(answer, "\"object\":\"plan\",\"name\":\"large\",\"requests_per_minute\":60,");
    edge_text_has(answer, "\"tenants\":0,\"created_at\":");
    assert_int_equal(edge_kit_admin("POST", PLANS, "{\"name\":\"large\"}"), 409);
    assert_int_equal(edge_kit_admin("POST", PLANS, "{}"), 400);
    edge_text_has(answer, "\"param\":\"name\"");
    snprintf(path, sizeof path, PLANS "/%s", id);
    assert_int_equal(edge_kit_admin("PATCH", path,
                                    "{\"weight\":5,\"default_class\":\"batch\",\"best_class\":"
                                    "\"standard\",\"on_limit\":\"stop\"}"),
                     200);
    edge_text_has(answer, "\"on_limit\":\"stop\",\"weight\":5,\"default_class\":\"batch\","
                          "\"best_class\":\"standard\",");
    assert_int_equal(edge_kit_admin("PATCH", path, "{\"default_class\":\"realtime\"}"), 400);
    edge_text_has(answer, "\"param\":\"default_class\"");
    assert_int_equal(edge_kit_admin("PATCH", path,
                                    "{\"weight\":null,\"default_class\":null,\"best_class\":null,"
                                    "\"on_limit\":null,\"requests_per_minute\":null}"),
                     200);
    edge_text_has(answer, "\"requests_per_minute\":null,");
    edge_text_has(answer, "etag: \"3\"");
    assert_int_equal(edge_kit_admin("GET", PLANS "?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "\"object\":\"list\"");
    edge_text_has(answer, id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    assert_int_equal(edge_kit_admin("GET", path, ""), 404);
    assert_int_equal(edge_kit_admin("PATCH", path, "{}"), 404);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 404);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_of_a_tenant),
        cmocka_unit_test(test_limits_of_a_key),
        cmocka_unit_test(test_life_of_a_plan),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
