/* edge_quota: what clients hear of limits: headers, refusals, ends in the middle; what returns. */
#include "gateway/edge/request/edge_quota.h"

#include "tests/unit/edge_kit.h"

static void put_limits(const char *body)
{
    char path[160];
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/limits", kit.tenant_id);
    assert_int_equal(edge_kit_admin("PUT", path, body), 200);
}

static int ask(const char *body)
{
    int code = edge_kit_public("POST", "/v1/chat/completions", body);
    if (code != 200 && code != 429)
        fail_msg("%s", answer);
    return code;
}

static int64_t metric(const char *name)
{
    char headers[256];
    snprintf(headers, sizeof headers, "authorization: Bearer %s\r\n", kit.admin_key);
    assert_int_equal(edge_kit_ask(kit.admin_port, "GET", "/metrics", headers, ""), 200);
    const char *found = strstr(answer, name);
    assert_non_null(found);
    return strtoll(found + strlen(name), NULL, 10);
}

static void test_headers_and_refusal(void **state)
{
    (void)state;
    put_limits("{\"requests_per_minute\":2,\"tokens_per_minute\":1000}");
    assert_int_equal(ask("{\"model\":\"ok\",\"max_tokens\":20}"), 200);
    edge_text_has(answer, "x-ratelimit-limit-requests: 2\r\n");
    edge_text_has(answer, "x-ratelimit-remaining-requests: 1\r\n");
    edge_text_has(answer, "x-ratelimit-limit-tokens: 1000\r\n");
    edge_text_has(answer, "x-ratelimit-reset-tokens: ");
    assert_int_equal(ask("{\"model\":\"ok\",\"stream\":true,\"max_tokens\":20}"), 200);
    edge_text_has(answer, "x-ratelimit-remaining-requests: 0\r\n");
    assert_int_equal(ask("{\"model\":\"ok\"}"), 429);
    edge_text_has(answer, "retry-after: ");
    edge_text_has(answer, "retry-after-ms: ");
    edge_text_has(answer, "x-ratelimit-remaining-requests: 0\r\n");
    edge_text_has(answer, "\"type\":\"requests\",\"param\":\"requests_per_minute\","
                          "\"code\":\"rate_limit_exceeded\"}}");
    assert_null(strstr(answer, "x-should-retry"));
    assert_int_equal(
        metric("banyan_quota_denials_total{limit=\"requests_per_minute\",mode=\"enforce\"} "), 1);
    put_limits("{}");
    assert_int_equal(ask("{\"model\":\"ok\"}"), 200);
    assert_null(strstr(answer, "x-ratelimit"));
}

static void test_what_waiting_does_not_help(void **state)
{
    (void)state;
    put_limits("{\"input_tokens_per_minute\":2}");
    assert_int_equal(ask("{\"model\":\"ok\",\"user\":\"0123456789\"}"), 429);
    edge_text_has(answer, "x-should-retry: false\r\n");
    edge_text_has(answer, "\"type\":\"tokens\"");
    assert_null(strstr(answer, "retry-after"));
    put_limits("{\"tokens_per_day\":1}");
    assert_int_equal(ask("{\"model\":\"ok\"}"), 429);
    edge_text_has(answer, "x-should-retry: false\r\n");
    edge_text_has(answer, "\"code\":\"insufficient_quota\"");
    assert_null(strstr(answer, "retry-after"));
    put_limits("{}");
}

/* And one request without any, so that what was used of a bucket is forgotten. */
static void no_limits(void)
{
    put_limits("{}");
    assert_int_equal(ask("{\"model\":\"ok\"}"), 200);
}

/* The fake engine's "endless" goes on until it is told to stop. */
static void test_an_end_in_the_middle(void **state)
{
    (void)state;
    put_limits("{\"output_tokens_per_minute\":5}");
    assert_int_equal(ask("{\"model\":\"endless\",\"stream\":true,\"stream_options\":"
                         "{\"include_usage\":true}}"),
                     200);
    edge_text_has(answer, "\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,"
                          "\"finish_reason\":\"length\"}],\"usage\":null}\n\ndata: {");
    edge_text_has(answer, "\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":");
    edge_text_has(answer, "data: [DONE]\n\n");
    assert_int_equal(
        metric("banyan_quota_stops_total{limit=\"output_tokens_per_minute\",mode=\"enforce\"} "),
        1);
    no_limits();
    put_limits("{\"output_tokens_per_minute\":6}");
    assert_int_equal(ask("{\"model\":\"endless\"}"), 200);
    edge_text_has(answer, "\"finish_reason\":\"length\"");
    no_limits();
    put_limits("{\"output_tokens_per_minute\":7}");
    assert_int_equal(
        edge_kit_public("POST", "/v1/generate", "{\"model\":\"endless\",\"stream\":true}"), 200);
    edge_text_has(answer, "\"text\":\"\",\"finish_reason\":\"length\",\"usage\":");
    no_limits();
}

static void test_going_on_in_the_lowest_class(void **state)
{
    (void)state;
    put_limits("{\"output_tokens_per_minute\":9,\"on_limit\":\"lower_class\"}");
    atomic_store(&engine_lowered, 0);
    assert_int_equal(ask("{\"model\":\"patient\",\"stream\":true,\"max_tokens\":500}"), 200);
    edge_text_has(answer, "\"finish_reason\":\"stop\"");
    edge_text_has(answer, "data: [DONE]\n\n");
    assert_int_equal(atomic_load(&engine_lowered), 1);
    assert_int_equal(metric("banyan_quota_lowered_total{limit=\"output_tokens_per_minute\"} "), 1);
    /* The next one is let in there, whatever it asks for. */
    assert_int_equal(ask("{\"model\":\"ok\",\"service_tier\":\"default\"}"), 200);
    edge_text_has(engine_head, "x-banyan-class: batch\r\n");
    assert_int_equal(atomic_load(&engine_lowered), 1);
    assert_int_equal(metric("banyan_quota_lowered_total{limit=\"output_tokens_per_minute\"} "), 2);
    no_limits();
    put_limits("{\"output_tokens_per_minute\":9,\"on_limit\":\"lower_class\"}");
    atomic_store(&engine_lowered, 0);
    assert_int_equal(ask("{\"model\":\"patient\",\"max_tokens\":500}"), 200);
    edge_text_has(answer, "\"finish_reason\":\"stop\"");
    assert_int_equal(atomic_load(&engine_lowered), 1);
    no_limits();
}

static void test_everything_comes_back(void **state)
{
    static const char *const models[] = {"ok", "cut", "half", "garbage", "error", "brief"};
    (void)state;
    put_limits("{\"concurrent_requests\":1,\"kv_tokens\":1000000}");
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char body[64];
        snprintf(body, sizeof body, "{\"model\":\"%s\",\"stream\":true}", models[i]);
        assert_int_equal(ask(body), 200); /* the one before it has let go */
    }
    assert_int_equal(edge_kit_public("GET", "/v1/me", ""), 200);
    edge_text_has(answer, "\"concurrent_requests\":{\"limit\":1,\"remaining\":1,\"reset_ms\":0,"
                          "\"mode\":\"enforce\"}");
    edge_text_has(answer, "\"kv_tokens\":{\"limit\":1000000,\"remaining\":1000000,");
    put_limits("{}");
}

static void test_shadow(void **state)
{
    (void)state;
    put_limits("{\"requests_per_minute\":{\"limit\":1,\"mode\":\"shadow\"}}");
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask("{\"model\":\"ok\"}"), 200);
    assert_int_equal(
        metric("banyan_quota_denials_total{limit=\"requests_per_minute\",mode=\"shadow\"} "), 2);
    /* An answer that is met in the middle goes on, and is told of once. */
    no_limits();
    put_limits("{\"output_tokens_per_minute\":{\"limit\":9,\"mode\":\"shadow\"}}");
    assert_int_equal(ask("{\"model\":\"patient\",\"stream\":true,\"max_tokens\":500}"), 200);
    edge_text_has(answer, "\"finish_reason\":\"stop\"");
    assert_int_equal(
        metric("banyan_quota_stops_total{limit=\"output_tokens_per_minute\",mode=\"shadow\"} "), 1);
    no_limits();
}

static void test_ends_of_several_choices(void **state)
{
    (void)state;
    struct edge_quota quota = {.is_stopped = true, .begun = 7, .ended = 2};
    struct buffer out;
    buffer_init(&out, 4096);
    edge_quota_append_ends(&quota, EDGE_STREAM_TEXT, SLICE("\"id\":\"x\","), false, &out);
    assert_string_equal(out.bytes, "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"text\":\"\","
                                   "\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n"
                                   "data: {\"id\":\"x\",\"choices\":[{\"index\":2,\"text\":\"\","
                                   "\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n");
    buffer_clear(&out);
    edge_quota_append_ends(&quota, EDGE_STREAM_GENERATION, SLICE(""), false, &out);
    assert_int_equal(out.length, 0);
    buffer_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers_and_refusal),
        cmocka_unit_test(test_what_waiting_does_not_help),
        cmocka_unit_test(test_an_end_in_the_middle),
        cmocka_unit_test(test_going_on_in_the_lowest_class),
        cmocka_unit_test(test_everything_comes_back),
        cmocka_unit_test(test_shadow),
        cmocka_unit_test(test_ends_of_several_choices),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
