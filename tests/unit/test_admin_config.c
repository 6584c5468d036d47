/* admin_config: the running options and where they came from; this edge has none to read again. */
#include "gateway/admin/admin_config.h"

#include "tests/unit/edge_kit.h"

static void test_get(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/config", ""), 200);
    json_t *root = json_loads(strstr(answer, "\r\n\r\n") + 4, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(root));
    assert_true(json_is_integer(json_object_get(root, "revision")));
    const json_t *options = json_object_get(root, "options");
    const json_t *sources = json_object_get(root, "sources");
    assert_int_equal(json_integer_value(json_object_get(options, "drain_timeout_s")), 2);
    assert_string_equal(json_string_value(json_object_get(sources, "drain_timeout_s")), "flag");
    assert_string_equal(json_string_value(json_object_get(sources, "ledger_keep_days")), "default");
    assert_int_equal(json_object_size(options), json_object_size(sources));
    json_decref(root);
    edge_text_has(answer, "\"reloadable\":[\"request_timeout_s\",");
    edge_text_has(answer, "etag: \"");
    assert_null(strstr(answer, kit.admin_key));
}

static void test_without_sources(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/config/validate", "{\"options\":{}}"), 503);
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/config/reload", ""), 503);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_without_sources),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
