#include "gateway/edge/state/edge_metrics.h"

#include "tests/unit/edge_text_kit.h"
#include "tests/unit/heap_kit.h"

#include <stdlib.h>
#include <unistd.h>

#include "auth/ledger/ledger.h"
#include "config/base/log.h"

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
    metric_observe(metrics.first_token_seconds[SERVICE_CLASS_STANDARD], 0.2);
    metric_observe(metrics.overhead_seconds, 0.001);
    struct buffer out;
    buffer_init(&out, 1 << 20);
    metrics_render(metrics.registry, &out);
    const char *lines[] = {
        "banyan_http_requests_total{route=\"/v1/models\",code=\"200\"} 2\n",
        "banyan_http_requests_total{route=\"/v1/models\",code=\"401\"} 1\n",
        "banyan_request_duration_seconds_count 3\n",
        "banyan_time_to_first_token_seconds_count{class=\"realtime\"} 0\n",
        "banyan_time_to_first_token_seconds_count{class=\"standard\"} 1\n",
        "banyan_time_to_first_token_seconds_count{class=\"batch\"} 0\n",
        "banyan_downgrades_total 0\n",
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

/* More routes and codes than are kept at hand are counted all the same. */
static void test_many_series(void **state)
{
    (void)state;
    struct edge_metrics metrics;
    assert_int_equal(edge_metrics_init(&metrics), STATUS_OK);
    for (int round = 0; round < 3; round++) {
        for (int code = 200; code < 200 + EDGE_METRICS_SERIES + 2; code++)
            edge_metrics_request(&metrics, "/v1/models", code, 1);
    }
    struct buffer out;
    buffer_init(&out, 1 << 20);
    metrics_render(metrics.registry, &out);
    for (int code = 200; code < 200 + EDGE_METRICS_SERIES + 2; code++) {
        char line[96];
        snprintf(line, sizeof line,
                 "banyan_http_requests_total{route=\"/v1/models\",code=\"%d\"} 3\n", code);
        edge_text_has(out.bytes, line);
    }
    buffer_deinit(&out);
    edge_metrics_deinit(&metrics);
}

/* Counters that follow a number kept elsewhere: looking twice adds nothing. */
static void test_look(void **state)
{
    (void)state;
    struct edge_metrics metrics;
    struct ledger *ledger;
    char folder[] = "/tmp/test_edge_metrics.XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ledger.db", folder);
    assert_int_equal(edge_metrics_init(&metrics), STATUS_OK);
    assert_int_equal(ledger_open(&ledger, &(struct ledger_options){.path = path}), STATUS_OK);
    for (int i = 0; i < 2; i++)
        edge_metrics_look(&metrics, ledger, NULL);
    assert_true(metric_value(metrics.ledger_bytes) >= 4096);
#ifndef HEAP_KIT_SANITIZED /* mallinfo2 knows nothing of a sanitizer's heap */
    assert_true(metric_value(metrics.heap_bytes) > 0);
#endif
    assert_true(metric_value(metrics.ledger_lag_rows) == 0);
    assert_true(metric_value(metrics.ledger_deleted) == 0);
    assert_true(metric_value(metrics.ledger_kept_since) == 0);
    assert_true(metric_value(metrics.log_dropped) == (double)log_dropped());
    ledger_close(ledger);
    edge_metrics_deinit(&metrics);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
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
        cmocka_unit_test(test_many_series),
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
