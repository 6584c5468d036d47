/* edge_access: the line and the counters of one request. */
#include "gateway/edge/state/edge_access.h"

#include <unistd.h>

#include "config/base/log.h"
#include "tests/unit/edge_text_kit.h"

static char line[8192];

static void log_of(const struct edge_access *access, struct edge_metrics *metrics,
                   enum log_level least)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    log_open(ends[1], least, "edge");
    edge_access_end(access, metrics, access->arrived_us + 12345);
    close(ends[1]);
    ssize_t got = read(ends[0], line, sizeof line - 1);
    assert_true(got >= 0);
    line[got] = '\0';
    close(ends[0]);
    log_open(STDERR_FILENO, LOG_ERROR, "edge");
}

static void test_line_and_counters(void **state)
{
    (void)state;
    struct edge_metrics metrics;
    assert_int_equal(edge_metrics_init(&metrics), STATUS_OK);
    struct edge_access access = {.route = "/v1/completions",
                                 .arrived_us = 1000,
                                 .request_id = "req_1",
                                 .code = 200,
                                 .finish = "stop",
                                 .method = "POST",
                                 .bytes = 789,
                                 .first_token_us = 4999,
                                 .peer = "192.0.2.7",
                                 .prompt_tokens = 5,
                                 .cached_tokens = 2,
                                 .completion_tokens = 3};
    struct principal principal = {.tenant_id = "tnt_1", .key_id = "key_1"};
    edge_access_principal(&access, &principal);
    log_of(&access, &metrics, LOG_INFO);
    const char *parts[] = {"\"event\":\"request\"",
                           "\"request_id\":\"req_1\"",
                           "\"tenant\":\"tnt_1\"",
                           "\"key\":\"key_1\"",
                           "\"route\":\"/v1/completions\"",
                           "\"code\":200",
                           "\"finish\":\"stop\"",
                           "\"prompt_tokens\":5",
                           "\"cached_tokens\":2",
                           "\"completion_tokens\":3",
                           "\"peer\":\"192.0.2.7\"",
                           "\"method\":\"POST\"",
                           "\"bytes\":789",
                           "\"ttft_ms\":3",
                           "\"ms\":12"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        edge_text_has(line, parts[i]);
    struct buffer out;
    buffer_init(&out, 1 << 20);
    metrics_render(metrics.registry, &out);
    edge_text_has(out.bytes,
                  "banyan_http_requests_total{route=\"/v1/completions\",code=\"200\"} 1\n");
    edge_text_has(out.bytes, "banyan_request_duration_seconds_sum 0.012345\n");
    buffer_deinit(&out);
    edge_metrics_deinit(&metrics);
}

static void test_health_checks_are_quiet(void **state)
{
    (void)state;
    struct edge_metrics metrics;
    assert_int_equal(edge_metrics_init(&metrics), STATUS_OK);
    struct edge_access access = {
        .route = "/health", .code = 200, .finish = "", .is_quiet = true, .method = "GET"};
    log_of(&access, &metrics, LOG_INFO);
    assert_string_equal(line, "");
    log_of(&access, &metrics, LOG_DEBUG);
    edge_text_has(line, "\"route\":\"/health\"");
    assert_null(strstr(line, "ttft_ms"));
    assert_null(strstr(line, "peer"));
    edge_metrics_deinit(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_and_counters),
        cmocka_unit_test(test_health_checks_are_quiet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
