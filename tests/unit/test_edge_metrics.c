#include "gateway/edge/edge_metrics.h"

#include "tests/unit/edge_text_kit.h"

static void test_names(void **state)
{
    (void)state;
    struct edge_metrics metrics;
    assert_int_equal(edge_metrics_init(&metrics), STATUS_OK);
    edge_metrics_request(&metrics, "/v1/models", 200, 1500);
    edge_metrics_request(&metrics, "/v1/models", 200, 1500);
    edge_metrics_request(&metrics, "/v1/models", 401, 10);
    metric_add(metrics.tokens_generated, 5);
    metric_set(metrics.upstream_up, 1);
    metric_observe(metrics.first_token_seconds, 0.2);
    metric_observe(metrics.overhead_seconds, 0.001);
    struct buffer out;
    buffer_init(&out, 1 << 20);
    metrics_render(metrics.registry, &out);
    const char *lines[] = {
        "banyan_http_requests_total{route=\"/v1/models\",code=\"200\"} 2\n",
        "banyan_http_requests_total{route=\"/v1/models\",code=\"401\"} 1\n",
        "banyan_request_duration_seconds_count 3\n",
        "banyan_time_to_first_token_seconds_bucket{class=\"standard\",le=",
        "banyan_gateway_overhead_seconds_count 1\n",
        "banyan_tokens_total{kind=\"prompt\"} 0\n",
        "banyan_tokens_total{kind=\"cached\"} 0\n",
        "banyan_tokens_total{kind=\"generated\"} 5\n",
        "banyan_upstream_up 1\n",
        "banyan_ledger_lag_rows 0\n",
        "banyan_requests_running 0\n",
        "banyan_requests_estimated_total 0\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        edge_text_has(out.bytes, lines[i]);
    buffer_deinit(&out);
    edge_metrics_deinit(&metrics);
}

static void test_without_memory(void **state)
{
    (void)state;
    struct edge_metrics metrics;
    struct edge_text_failing failing = {.fails_at = 0};
    mem_hook_set(edge_text_hook, &failing);
    assert_int_equal(edge_metrics_init(&metrics), STATUS_NO_MEMORY);
    mem_hook_set(NULL, NULL);
    edge_metrics_deinit(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
