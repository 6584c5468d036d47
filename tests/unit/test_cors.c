/* cors: which lists are taken; preflights and answers over a real listener, also to what no handler
 * answers. */
#include "gateway/http/cors.h"
#include "gateway/http/cors_preflight.h"

#include "http_kit.h"

static char answer[65536];
static struct cors *cors;

static void test_lists(void **state)
{
    (void)state;
    static const char *const good[] = {
        "*",
        "https://app.example",
        "http://localhost:3000",
        "https://a.example , http://[::1]:8080,https://b-c.example",
        "app://obsidian.md",
        "chrome-extension://abcdefghijklmnop",
    };
    static const char *const bad[] = {
        ",",
        "https://a.example,",
        "https://a.example,*",
        "null",
        "a.example",
        "https://",
        "://a.example",
        "https://a.example/",
        "https://a.example/x",
        "https://A.example",
        "https://*.example",
        "https://a.example:443",
        "http://a.example:80",
        "https://a.example https://b.example",
        "https://a.example\r\nx: y",
        "https://user@a.example",
    };
    struct cors *made;
    assert_int_equal(cors_create(&made, ""), STATUS_OK);
    assert_null(made);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (cors_create(&made, good[i]) != STATUS_OK)
            fail_msg("%s was refused", good[i]);
        cors_destroy(made);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (cors_create(&made, bad[i]) != STATUS_INVALID)
            fail_msg("%s was taken", bad[i]);
        assert_null(made);
        assert_string_equal(status_note()->param, "cors_origins");
    }
    struct buffer many;
    buffer_init(&many, 4096);
    for (int i = 0; i < LIMIT_CORS_ORIGINS; i++)
        buffer_printf(&many, "%sa://b%d", i == 0 ? "" : ",", i);
    buffer_append_char(&many, '\0');
    assert_int_equal(cors_create(&made, many.bytes), STATUS_OK);
    cors_destroy(made);
    many.length--;
    buffer_append(&many, ",a://b", sizeof ",a://b");
    assert_int_equal(cors_create(&made, many.bytes), STATUS_LIMIT);
    buffer_deinit(&many);
}

static void handle(struct http_request *request, void *context)
{
    (void)context;
    if (cors_preflight(cors, request, "GET, POST"))
        return;
    if (slice_is(http_path(request), "/stream")) {
        http_stream_begin(request, 200, NULL, 0, NULL, NULL);
        http_stream_write(request, SLICE("x"));
        http_stream_end(request);
    } else {
        http_respond_error(request, STATUS_NOT_FOUND, NULL, "none");
    }
}

static void ask(const struct http_kit *kit, const char *line, const char *headers)
{
    char request[1024];
    int fd = http_kit_connect(kit);
    snprintf(request, sizeof request, "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n", line,
             headers);
    http_kit_send_text(fd, request);
    http_kit_read(fd, answer, sizeof answer, NULL);
    close(fd);
}

static void has(const char *text)
{
    if (strstr(answer, text) == NULL)
        fail_msg("no %s in %s", text, answer);
}

static void has_not(const char *text)
{
    if (strstr(answer, text) != NULL)
        fail_msg("%s in %s", text, answer);
}

#define ORIGIN    "Origin: https://a.example\r\n"
#define PREFLIGHT "Access-Control-Request-Method: POST\r\n"

static void start(struct http_kit *kit, const char *origins)
{
    assert_int_equal(cors_create(&cors, origins), STATUS_OK);
    http_kit_start(kit, false, (struct listener_options){.handler = handle, .cors = cors});
}

static void stop(struct http_kit *kit)
{
    http_kit_stop(kit);
    cors_destroy(cors);
}

static void test_a_list(void **state)
{
    (void)state;
    static const char *const lines[] = {"GET /", "GET /stream", "GET x", "POST /"};
    static const char *const headers[] = {ORIGIN, ORIGIN, ORIGIN,
                                          ORIGIN "Content-Length: 99999999\r\n"};
    struct http_kit kit = {0};
    start(&kit, "https://b.example,https://a.example");
    ask(&kit, "OPTIONS /x",
        ORIGIN PREFLIGHT "Access-Control-Request-Headers: authorization,x-stainless-os\r\n");
    has("HTTP/1.1 204 ");
    has("access-control-allow-origin: https://a.example\r\n");
    has("access-control-allow-methods: GET, POST\r\n");
    has("access-control-allow-headers: authorization,x-stainless-os\r\n");
    has("access-control-max-age: 600\r\n");
    has("vary: origin\r\n");
    has_not("credentials");
    for (size_t i = 0; i < 4; i++) { /* a refusal, a stream, and two that no handler hears of */
        ask(&kit, lines[i], headers[i]);
        has("access-control-allow-origin: https://a.example\r\n");
        has("access-control-expose-headers: x-request-id, retry-after, ");
        has("vary: origin\r\n");
        has_not("credentials");
    }
    /* Others' answers are the same as without a list, but for caches. */
    static const char *const strangers[] = {"Origin: https://evil.example\r\n" PREFLIGHT,
                                            "Origin: null\r\n" PREFLIGHT,
                                            "Origin: https://a.example.evil\r\n" PREFLIGHT,
                                            "Origin: https://a.exampl\r\n" PREFLIGHT,
                                            "Origin: HTTPS://a.example\r\n" PREFLIGHT,
                                            PREFLIGHT,
                                            "Origin: \r\n" PREFLIGHT};
    for (size_t i = 0; i < sizeof strangers / sizeof strangers[0]; i++) {
        ask(&kit, "OPTIONS /x", strangers[i]);
        has("HTTP/1.1 404 ");
        has_not("access-control-");
        has("vary: origin\r\n");
    }
    ask(&kit, "OPTIONS /x", ORIGIN); /* no preflight */
    has("HTTP/1.1 404 ");
    ask(&kit, "OPTIONS /x", ORIGIN PREFLIGHT "Access-Control-Request-Headers: a\"b\r\n");
    has("HTTP/1.1 204 ");
    has_not("access-control-allow-headers");
    stop(&kit);
}

static void test_any_and_none(void **state)
{
    (void)state;
    struct http_kit kit = {0};
    start(&kit, "*");
    ask(&kit, "OPTIONS /x", "Origin: null\r\n" PREFLIGHT);
    has("HTTP/1.1 204 ");
    has("access-control-allow-origin: *\r\n");
    has_not("vary");
    ask(&kit, "GET /", "");
    has_not("access-control-");
    stop(&kit);
    start(&kit, "");
    ask(&kit, "OPTIONS /x", ORIGIN PREFLIGHT);
    has("HTTP/1.1 404 ");
    has_not("access-control-");
    has_not("vary");
    stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists), cmocka_unit_test(test_a_list),
                                       cmocka_unit_test(test_any_and_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
