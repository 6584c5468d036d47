/* admin_state: audit rows, metrics, health. */
#include "gateway/admin/admin_state.h"

#include "tests/unit/edge_kit.h"

static void test_audit(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=100", ""), 200);
    const char *body = strstr(answer, "\r\n\r\n") + 4;
    json_t *root = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(root));
    const json_t *data = json_object_get(root, "data");
    assert_true(json_array_size(data) >= 2);
    bool has_tenant = false;
    bool has_key = false;
    for (size_t i = 0; i < json_array_size(data); i++) {
        const json_t *row = json_array_get(data, i);
        const char *type = json_string_value(json_object_get(row, "type"));
        const char *subject = json_string_value(json_object_get(row, "subject"));
        has_tenant |= strcmp(type, "tenant.created") == 0 && strcmp(subject, kit.tenant_id) == 0;
        has_key |= strcmp(type, "key.created") == 0 && strcmp(subject, kit.key_id) == 0;
        assert_true(json_is_object(json_object_get(row, "detail")));
        assert_true(json_is_string(json_object_get(row, "id")));
    }
    assert_true(has_tenant);
    assert_true(has_key);
    json_decref(root);
    edge_text_has(answer, "\"peer\":\"127.0.0.1:");
    edge_text_has(answer, "\"request_id\":\"req_");
    edge_text_has(answer, "\"actor\":{\"type\":\"api_key\",\"id\":\"key_");
    edge_text_has(answer, "\"subject\":null,\"peer\":");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "key.created");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?after=x", ""), 400);
    edge_text_has(answer, "\"param\":\"after\"");
}

static void test_metrics(void **state)
{
    (void)state;
    assert_int_equal(
        edge_kit_public("POST", "/v1/completions", "{\"model\":\"ok\",\"stream\":true}"), 200);
    const char *lines[] = {
        "banyan_http_requests_total{route=\"/v1/completions\",code=\"200\"} 1\n",
        "banyan_http_requests_total{route=\"/admin/v1/tenants\",code=\"201\"} 1\n",
        "banyan_request_duration_seconds_bucket{le=",
        "banyan_time_to_first_token_seconds_count{class=\"standard\"} 1\n",
        "banyan_gateway_overhead_seconds_count 1\n",
        "banyan_tokens_total{kind=\"prompt\"} 5\n",
        "banyan_tokens_total{kind=\"cached\"} 2\n",
        "banyan_tokens_total{kind=\"generated\"} 3\n",
        "banyan_upstream_up 1\n",
        "banyan_ledger_lag_rows 0\n",
    };
    /* The row may be on its way still when its answer is there. */
    size_t found = 0;
    for (int turn = 0; turn < 3000 && found < sizeof lines / sizeof lines[0]; turn++) {
        if (turn > 0)
            usleep(10000);
        assert_int_equal(edge_kit_admin("GET", "/metrics", ""), 200);
        for (found = 0; found < sizeof lines / sizeof lines[0]; found++) {
            if (strstr(answer, lines[found]) == NULL)
                break;
        }
    }
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        edge_text_has(answer, lines[i]);
    edge_text_has(answer, "content-type: text/plain; version=0.0.4");
    assert_null(strstr(answer, kit.tenant_id));
    assert_int_equal(edge_kit_admin("GET", "/v1/metrics", ""), 200);
}

static void test_health(void **state)
{
    (void)state;
    assert_int_equal(edge_kit_ask(kit.admin_port, "GET", "/health", "", ""), 200);
    edge_text_has(answer, "{\"status\":\"ok\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_audit),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_health),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
