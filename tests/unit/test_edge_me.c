/* edge_me: what a key is told about itself, and never about others or its own value. */
#include "tests/unit/edge_kit.h"

static json_t *me(const char *key)
{
    int code = edge_kit_ask(kit.port, "GET", "/v1/me", edge_kit_bearer(key), "");
    if (code != 200)
        fail_msg("%d %s", code, answer);
    edge_text_has(answer, "cache-control: no-store\r\n");
    json_t *root = json_loads(strstr(answer, "\r\n\r\n") + 4, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    return root;
}

static const char *text_at(json_t *root, const char *object, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(root, object), name));
    assert_non_null(text);
    return text;
}

static int64_t number_at(json_t *root, const char *object, const char *name)
{
    json_t *value = json_object_get(json_object_get(root, object), name);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static void test_who_i_am(void **state)
{
    (void)state;
    json_t *root = me(kit.key);
    assert_string_equal(json_string_value(json_object_get(root, "object")), "me");
    assert_string_equal(text_at(root, "tenant", "id"), kit.tenant_id);
    assert_string_equal(text_at(root, "tenant", "name"), "acme");
    assert_string_equal(text_at(root, "key", "id"), kit.key_id);
    assert_string_equal(text_at(root, "tenant", "default_class"), "standard");
    assert_string_equal(text_at(root, "tenant", "best_class"), "realtime");
    json_t *models = json_object_get(json_object_get(root, "tenant"), "models");
    assert_true(json_is_array(models) && json_array_size(models) == 0);
    assert_string_equal(text_at(root, "key", "name"), "test");
    assert_true(strlen(text_at(root, "key", "redacted")) < strlen(kit.key));
    assert_int_equal(strncmp(text_at(root, "key", "redacted"), "sk-by-", 6), 0);
    json_t *scopes = json_object_get(json_object_get(root, "key"), "scopes");
    assert_int_equal(json_array_size(scopes), 2);
    assert_true(json_is_null(json_object_get(json_object_get(root, "key"), "expires_at")));
    assert_int_equal(number_at(root, "limits", "request_timeout_s"), kit.config->request_timeout_s);
    assert_int_equal(number_at(root, "limits", "body_bytes"), kit.config->body_limit);
    assert_int_equal(number_at(root, "usage_today", "start_time") % 86400, 0);
    json_decref(root);
    assert_null(strstr(answer, kit.key));
    assert_null(strstr(answer, kit.key + 20)); /* not its secret part either */
}

/* Usage is the key's own: another key of the tenant sees its own, too. */
static void test_own_usage(void **state)
{
    (void)state;
    char path[128];
    char key[128];
    char body[128];
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/keys", kit.tenant_id);
    long long expires = 4102444800;
    snprintf(body, sizeof body,
             "{\"name\":\"narrow\",\"scopes\":[\"inference\"],\"expires_at\":%lld}", expires);
    assert_int_equal(edge_kit_admin("POST", path, body), 201);
    edge_kit_member("key", key, sizeof key);
    for (int i = 0; i < 3; i++)
        assert_int_equal(edge_kit_public("POST", "/v1/completions", "{\"model\":\"ok\"}"), 200);
    assert_int_equal(edge_kit_ask(kit.port, "POST", "/v1/completions", edge_kit_bearer(key),
                                  "{\"model\":\"ok\"}"),
                     200);
    json_t *root = me(kit.key);
    assert_int_equal(number_at(root, "usage_today", "num_model_requests"), 3);
    assert_int_equal(number_at(root, "usage_today", "input_tokens"), 15);
    assert_int_equal(number_at(root, "usage_today", "input_cached_tokens"), 6);
    assert_int_equal(number_at(root, "usage_today", "output_tokens"), 9);
    assert_int_equal(number_at(root, "cache", "prompt_tokens"), 15);
    assert_int_equal(number_at(root, "cache", "cached_tokens"), 6);
    json_decref(root);
    root = me(key); /* no scope is needed */
    assert_int_equal(number_at(root, "usage_today", "num_model_requests"), 1);
    assert_int_equal(number_at(root, "key", "expires_at"), expires);
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "key"), "scopes")), 1);
    json_decref(root);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/me", "", ""), 401);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/v1/me", edge_kit_bearer(kit.admin_key), ""),
                     401);
    assert_int_equal(edge_kit_public("POST", "/v1/me", "{}"), 405);
    edge_text_has(answer, "allow: GET");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_i_am),
        cmocka_unit_test(test_own_usage),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
