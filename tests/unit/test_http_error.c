/* http_error: every status has its row, and clients see the shape that SDKs read. */
#include "http_kit.h"

static char answer[65536];

static void test_table(void **state)
{
    (void)state;
    const struct {
        enum status status;
        int http_code;
        const char *type;
        const char *code;
    } rows[] = {
        {STATUS_INVALID, 400, "invalid_request_error", NULL},
        {STATUS_CONTEXT_LENGTH, 400, "invalid_request_error", "context_length_exceeded"},
        {STATUS_KEY_MISSING, 401, "invalid_request_error", "invalid_api_key"},
        {STATUS_KEY_INVALID, 401, "invalid_request_error", "invalid_api_key"},
        {STATUS_FORBIDDEN, 403, "permission_error", "insufficient_scope"},
        {STATUS_MODEL_FORBIDDEN, 403, "permission_error", "model_not_allowed"},
        {STATUS_RUNNING, 409, "invalid_request_error", "idempotency_key_in_use"},
        {STATUS_MODEL_NOT_FOUND, 404, "invalid_request_error", "model_not_found"},
        {STATUS_LIMIT, 413, "invalid_request_error", "request_too_large"},
        {STATUS_QUEUE_FULL, 429, "rate_limit_error", "queue_full"},
        {STATUS_MEMORY_SHARE, 429, "rate_limit_error", "memory_share_used"},
        {STATUS_ENGINE_SHARE, 503, "rate_limit_error", "engine_share_used"},
        {STATUS_BUSY, 503, "server_error", "engine_overloaded"},
        {STATUS_DEADLINE, 503, "server_error", "queue_timeout"},
    };
    for (int status = 0; status < STATUS_COUNT; status++) {
        const struct http_error *error = http_error_of((enum status)status);
        assert_true(error->http_code >= 400);
        assert_non_null(error->type);
        /* Who may come again is told when; who may not is told so; never both. */
        if (error->http_code == 503)
            assert_true(error->retry_after_ms > 0);
        if (error->is_final)
            assert_int_equal(error->retry_after_ms, 0);
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct http_error *error = http_error_of(rows[i].status);
        assert_int_equal(error->http_code, rows[i].http_code);
        assert_string_equal(error->type, rows[i].type);
        if (rows[i].code == NULL)
            assert_null(error->code);
        else
            assert_string_equal(error->code, rows[i].code);
    }
}

static void test_render(void **state)
{
    (void)state;
    struct error_note note = {.status = STATUS_INVALID, .param = "a\"b", .message = "say \"x\"\n"};
    struct buffer out;
    buffer_init(&out, 1024);
    http_error_render(&note, &out);
    assert_string_equal(out.bytes,
                        "{\"error\":{\"message\":\"say \\\"x\\\"\\n\",\"type\":"
                        "\"invalid_request_error\",\"param\":\"a\\\"b\",\"code\":null}}");
    buffer_clear(&out);
    note = (struct error_note){.status = STATUS_BUSY, .message = "m"};
    http_error_render(&note, &out);
    assert_string_equal(out.bytes, "{\"error\":{\"message\":\"m\",\"type\":\"server_error\","
                                   "\"param\":null,\"code\":\"engine_overloaded\"}}");
    buffer_clear(&out);
    http_error_render_code(413, &out);
    assert_non_null(strstr(out.bytes, "request_too_large"));
    buffer_clear(&out);
    http_error_render_code(418, &out); /* one that has no row: still the shape */
    assert_non_null(strstr(out.bytes, "invalid_request_error"));
    buffer_clear(&out);
    http_error_render_code(599, &out);
    assert_non_null(strstr(out.bytes, "server_error"));
    buffer_deinit(&out);
}

static enum status fail_note(enum status status)
{
    FAIL_PARAM(status, "messages[0].role", "the note's text");
}

static void handle(struct http_request *request, void *context)
{
    (void)context;
    struct slice path = http_path(request);
    if (slice_is(path, "/key")) {
        http_respond_error(request, STATUS_KEY_INVALID, NULL, "No key %d.", 7);
    } else if (slice_is(path, "/busy")) {
        http_respond_error(request, STATUS_BUSY, NULL, "Full.");
    } else if (slice_is(path, "/later")) {
        (void)fail_note(STATUS_QUEUE_FULL);
        status_note_retry(2500);
        http_respond_failure(request);
    } else if (slice_is(path, "/never")) {
        (void)fail_note(STATUS_BUSY);
        status_note_retry(UINT32_MAX);
        http_respond_failure(request);
    } else if (slice_is(path, "/long")) {
        char text[2000];
        memset(text, '\x01', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        http_respond_error(request, STATUS_INVALID, "p", "%s", text);
    } else {
        enum status status = fail_note(STATUS_INVALID);
        assert_int_equal(status, STATUS_INVALID);
        http_respond_failure(request);
    }
}

static void fetch(const struct http_kit *kit, const char *path)
{
    int fd = http_kit_connect(kit);
    char request[256];
    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             path);
    http_kit_send_text(fd, request);
    http_kit_read(fd, answer, sizeof(answer), NULL);
    close(fd);
}

static void test_answers(void **state)
{
    (void)state;
    struct http_kit kit = {0};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    fetch(&kit, "/key");
    assert_memory_equal(answer, "HTTP/1.1 401 Unauthorized\r\n", 27);
    assert_non_null(strstr(answer, "www-authenticate: Bearer\r\n"));
    assert_non_null(strstr(answer, "x-should-retry: false\r\n"));
    assert_non_null(strstr(answer, "content-type: application/json\r\n"));
    assert_non_null(strstr(answer, "\"message\":\"No key 7.\""));
    assert_null(strstr(answer, "retry-after"));
    fetch(&kit, "/busy");
    assert_memory_equal(answer, "HTTP/1.1 503 ", 13);
    assert_non_null(strstr(answer, "retry-after: 1\r\n"));
    assert_non_null(strstr(answer, "retry-after-ms: 1000\r\n"));
    assert_null(strstr(answer, "x-should-retry"));
    fetch(&kit, "/later"); /* what the note says counts, up to two minutes */
    assert_memory_equal(answer, "HTTP/1.1 429 ", 13);
    assert_non_null(strstr(answer, "retry-after: 3\r\n"));
    assert_non_null(strstr(answer, "retry-after-ms: 2500\r\n"));
    fetch(&kit, "/never");
    assert_non_null(strstr(answer, "retry-after: 120\r\n"));
    fetch(&kit, "/note");
    assert_non_null(strstr(answer, "\"message\":\"the note's text\""));
    assert_non_null(strstr(answer, "\"param\":\"messages[0].role\""));
    fetch(&kit, "/long"); /* cut to the note's size, each byte escaped: it still fits */
    assert_memory_equal(answer, "HTTP/1.1 400 ", 13);
    http_kit_stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_render),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
