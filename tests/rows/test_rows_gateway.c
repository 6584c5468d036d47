/* test_rows_gateway: an edge whose tables have rows that the product's do not (CMakeLists.txt): two
 * limits, routes, an option. Each is a row and nothing else, and is enforced, told and refused. The
 * rows of both faces' routes stand in the opposite order. */
#include "auth/limits/quota_limits.h"
#include "gateway/cli/cli.h"
#include "tests/unit/edge_kit.h"

/* Reads as the file of that name does; the caller frees it. */
static char *text_of(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    long length = ftell(file);
    rewind(file);
    char *text = calloc(1, (size_t)length + 1);
    assert_int_equal(fread(text, 1, (size_t)length, file), length);
    fclose(file);
    return text;
}

static void put_limits(const char *body)
{
    char path[160];
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/limits", kit.tenant_id);
    assert_int_equal(edge_kit_admin("PUT", path, body), 200);
}

static void test_a_limit_is_enforced_and_told(void **state)
{
    (void)state;
    assert_string_equal(quota_limits_form(QUOTA_SPARE_PER_DAY)->member, "spare_per_day");
    put_limits("{\"spare_per_minute\":2}");
    edge_text_has(answer, "\"spare_per_minute\":2,\"spare_per_day\":null");
    for (int i = 0; i < 2; i++)
        assert_int_equal(edge_kit_public("POST", "/v1/tokenize", "{\"prompt\":\"x\"}"), 200);
    assert_int_equal(edge_kit_public("POST", "/v1/chat/completions", "{\"model\":\"ok\"}"), 429);
    edge_text_has(answer, "x-ratelimit-limit-requests: 2\r\n");
    edge_text_has(answer, "\"param\":\"spare_per_minute\",\"code\":\"rate_limit_exceeded\"");
    assert_int_equal(edge_kit_public("GET", "/v1/me", ""), 200);
    edge_text_has(answer, "\"spare_per_minute\":{\"limit\":2,\"remaining\":0,");
    assert_int_equal(edge_kit_admin("GET", "/metrics", ""), 200);
    edge_text_has(answer,
                  "banyan_quota_denials_total{limit=\"spare_per_minute\",mode=\"enforce\"} 1");
}

/* A budget: charged from the ledger's rows, and read again by a process that begins. */
static void test_a_budget_survives_a_restart(void **state)
{
    (void)state;
    put_limits("{\"spare_per_day\":8}");
    int rows = edge_kit_rows();
    assert_int_equal(
        edge_kit_public("POST", "/v1/chat/completions", "{\"model\":\"ok\",\"max_tokens\":2}"),
        200); /* its prompt has 5 tokens, 2 of them cached */
    edge_kit_wait_rows(rows + 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            edge_kit_public("POST", "/v1/chat/completions", "{\"model\":\"ok\",\"max_tokens\":2}"),
            429);
        edge_text_has(answer, "\"param\":\"spare_per_day\",\"code\":\"insufficient_quota\"");
        edge_text_has(answer, "limit 8, used 3, requested ");
        if (i == 0) {
            edge_kit_end();
            edge_kit_run();
        }
    }
}

/* Work on text asks the ledger, too. */
static void test_a_day_of_requests_is_read(void **state)
{
    (void)state;
    char limits[64];
    snprintf(limits, sizeof limits, "{\"requests_per_day\":%d}", edge_kit_rows());
    put_limits(limits);
    edge_kit_end();
    edge_kit_run();
    assert_int_equal(edge_kit_public("POST", "/v1/tokenize", "{\"prompt\":\"x\"}"), 429);
    edge_text_has(answer, "\"param\":\"requests_per_day\"");
    put_limits("{}");
}

static void test_a_limit_is_refused(void **state)
{
    (void)state;
    char path[160];
    snprintf(path, sizeof path, "/admin/v1/tenants/%s/limits", kit.tenant_id);
    assert_int_equal(edge_kit_admin("PUT", path, "{\"spare_per_day\":1001}"), 400);
    edge_text_has(answer, "\"param\":\"spare_per_day\"");
    edge_text_has(answer, "1000");
    assert_int_equal(edge_kit_admin("PUT", path, "{\"spare_per_hour\":1}"), 400);
}

static void test_a_limit_is_exported_and_printed(void **state)
{
    (void)state;
    char url[64];
    char *out = NULL;
    size_t length = 0;
    put_limits("{\"spare_per_day\":{\"limit\":9,\"mode\":\"shadow\"}}");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/config/export", ""), 200);
    edge_text_has(answer, "\"spare_per_day\"");
    snprintf(url, sizeof url, "https://127.0.0.1:%d", kit.admin_port);
    const char *argv[] = {"limits", "set",      kit.tenant_id,        "--url",
                          url,      "--limits", "spare_per_minute=77"};
    FILE *stream = open_memstream(&out, &length);
    const struct cli_options options = {.data_dir = kit.dir, .out = stream, .err = stream};
    enum cli_exit code = cli_run(sizeof argv / sizeof argv[0], argv, &options);
    fclose(stream);
    if (code != CLI_DONE || strstr(out, "spare_per_minute") == NULL || strstr(out, "77") == NULL ||
        strstr(out, "spare_per_day") == NULL)
        fail_msg("%d: %s", (int)code, out);
    free(out);
    put_limits("{}");
}

static void test_a_route_is_served_counted_and_limited(void **state)
{
    (void)state;
    int rows = edge_kit_rows();
    assert_int_equal(edge_kit_public("POST", "/v1/tokenize-spare", "{\"prompt\":\"x\"}"), 200);
    edge_text_has(engine_head, "POST /v1/tokenize-spare HTTP/1.1");
    edge_kit_wait_rows(rows + 1);
    put_limits("{\"requests_per_minute\":1}");
    assert_int_equal(edge_kit_public("POST", "/v1/tokenize-spare", "{\"prompt\":\"x\"}"), 200);
    assert_int_equal(edge_kit_public("POST", "/v1/tokenize-spare", "{\"prompt\":\"x\"}"), 429);
    put_limits("{}");
    edge_kit_wait_rows(rows + 2);
    assert_int_equal(edge_kit_public("GET", "/v1/tokenize-spare", ""), 405);
    assert_int_equal(edge_kit_ask(kit.port, "POST", "/v1/tokenize-spare", "", "{}"), 401);
    assert_int_equal(edge_kit_public("POST", "/v1/spare", "{\"model\":\"ok\"}"), 403);
    edge_text_has(answer, "priority"); /* the scope that its row asks for */
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/spare", ""), 200);
    edge_text_has(answer, "\"object\":\"list\"");
}

/* Rows in the opposite order: what is counted is what says so. */
static void test_the_order_of_routes_means_nothing(void **state)
{
    (void)state;
    int rows = edge_kit_rows();
    assert_int_equal(edge_kit_public("GET", "/v1/me", ""), 200);
    assert_int_equal(edge_kit_public("GET", "/v1/models", ""), 200);
    assert_int_equal(edge_kit_public("GET", "/v1/usage?start_time=0", ""), 200);
    assert_int_equal(edge_kit_ask(kit.port, "GET", "/health", "", ""), 200);
    assert_int_equal(edge_kit_rows(), rows);
    assert_int_equal(edge_kit_public("POST", "/v1/detokenize", "{\"tokens\":[]}"), 200);
    assert_int_equal(edge_kit_public("POST", "/v1/completions", "{\"model\":\"ok\"}"), 200);
    edge_kit_wait_rows(rows + 2);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/tenants", ""), 200);
    assert_int_equal(edge_kit_admin("GET", "/health", ""), 200);
}

static enum status option_load(const char *value, const struct config **out)
{
    const char *argv[] = {"--spare", value};
    return config_load(out, CONFIG_EDGE, 2, argv, NULL);
}

static void test_an_option_is_read_told_and_refused(void **state)
{
    (void)state;
    const struct config *config = NULL;
    struct buffer text;
    buffer_init(&text, 1 << 20);
    assert_int_equal(kit.config->spare, 8);
    assert_int_equal(option_load("9", &config), STATUS_OK);
    assert_int_equal(config->spare, 9);
    config_release(config);
    assert_int_equal(option_load("10", &config), STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "spare");
    assert_int_equal(option_load("x", &config), STATUS_INVALID);
    config_help(CONFIG_EDGE, &text);
    config_schema(&text);
    config_markdown(&text);
    buffer_append_char(&text, '\0');
    edge_text_has(text.bytes, "--spare N");
    edge_text_has(text.bytes, "an option of the tests alone");
    edge_text_has(text.bytes, "\"spare\":");
    edge_text_has(text.bytes, "`--spare N`");
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/config", ""), 200);
    edge_text_has(answer, "\"spare\": 8");
    buffer_deinit(&text);
    char *listed = text_of("config/OPTIONS.md"); /* tests/tidy compares it with the table */
    assert_null(strstr(listed, "--spare"));
    free(listed);
}

static int setup(void **state)
{
    (void)state;
    const char *options[] = {"--drain-timeout-s", "2", "--replay-wait-s", "1", "--spare", "8"};
    edge_kit_setup_with(options, 6);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_limit_is_enforced_and_told),
        cmocka_unit_test(test_a_budget_survives_a_restart),
        cmocka_unit_test(test_a_day_of_requests_is_read),
        cmocka_unit_test(test_a_limit_is_refused),
        cmocka_unit_test(test_a_limit_is_exported_and_printed),
        cmocka_unit_test(test_a_route_is_served_counted_and_limited),
        cmocka_unit_test(test_the_order_of_routes_means_nothing),
        cmocka_unit_test(test_an_option_is_read_told_and_refused),
    };
    return cmocka_run_group_tests(tests, setup, edge_kit_teardown);
}
