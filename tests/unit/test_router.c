/* router: paths, segments, methods, over a real request. */
#include "http_kit.h"

static char answer[65536];

static void handle_found(struct http_request *request, void *context)
{
    const size_t *index = context;
    struct slice first = http_path_argument(request, 0);
    struct slice second = http_path_argument(request, 1);
    char text[256];
    int length = snprintf(text, sizeof(text), "row %zu %.*s %.*s.", *index, (int)first.length,
                          first.length > 0 ? first.bytes : "", (int)second.length,
                          second.length > 0 ? second.bytes : "");
    http_respond_json(request, 200, (struct slice){text, (size_t)length});
}

static const struct route routes[] = {
    {"GET", "/v1/models", handle_found},        {"GET", "/v1/models/{id}", handle_found},
    {"POST", "/v1/models/{id}", handle_found},  {"GET", "/a/{id}/b/{id}", handle_found},
    {"DELETE", "/a/{id}/b/{id}", handle_found}, {"GET", "/", handle_found},
    {"GET", "/m/{rest}", handle_found},         {"POST", "/post", handle_found},
};

static void handle(struct http_request *request, void *context)
{
    (void)context;
    size_t index = 99;
    const struct route *route =
        router_find(routes, sizeof(routes) / sizeof(routes[0]), request, &index);
    if (route != NULL)
        route->handler(request, &index);
}

static const struct {
    const char *line;
    const char *code;
    const char *wanted[2];
} rows[] = {
    {"GET /v1/models", "200", {"row 0  ."}},
    {"GET /v1/models?x=/", "200", {"row 0  ."}},
    {"GET /v1/models/abc", "200", {"row 1 abc ."}},
    {"POST /v1/models/a%20%5b", "200", {"row 2 a [ ."}},
    {"POST /v1/models/%c3%A9%25", "200", {"row 2 \xc3\xa9% ."}},
    {"GET /m/a/b", "200", {"row 6 a/b ."}},
    {"GET /m/a%2Fb?x=%zz", "200", {"row 6 a/b ."}},
    {"GET /m/a%2fb/c%252F", "200", {"row 6 a/b/c%2F ."}},   /* once */
    {"GET /m/..%2F../%2e%2e", "200", {"row 6 ../../.. ."}}, /* a name, nothing is walked */
    {"GET /m/", "404", {"\"code\":\"not_found\""}},
    {"GET /m/a%2", "400", {"percent sign"}},
    {"GET /m/a%", "400", {"percent sign"}},
    {"GET /m/%g0", "400", {"percent sign"}},
    {"GET /m/%0g", "400", {"percent sign"}},
    {"GET /m/%%41", "400", {"percent sign"}},
    {"GET /a/1/b/%4", "400", {"percent sign"}},
    {"GET /m/a%00b", "404", {"\"code\":\"not_found\""}},
    {"GET /m/a%0d%0aX-A:b", "404", {"\"code\":\"not_found\""}},
    {"GET /m/a%7Fb", "404", {"\"code\":\"not_found\""}},
    {"GET /m/a%ff", "404", {"\"code\":\"not_found\""}},
    {"GET /m/%c0%af", "404", {"\"code\":\"not_found\""}},
    {"GET /m/%ed%a0%80", "404", {"\"code\":\"not_found\""}},
    {"GET /v1/models/a%2Fb", "404", {"\"code\":\"not_found\""}},
    {"GET /a/1%2Fb%2F2/b/2", "404", {"\"code\":\"not_found\""}},
    {"GET /v1%2Fmodels", "404", {"\"code\":\"not_found\""}},
    {"GET /v1/%6dodels", "404", {"\"code\":\"not_found\""}},
    {"PUT /m/%zz", "405", {"allow: GET, HEAD\r\n"}},
    {"GET /a/1/b/2", "200", {"row 3 1 2."}},
    {"DELETE /a/1/b/2", "200", {"row 4 1 2."}},
    {"GET /", "200", {"row 5  ."}},
    {"GET /v1/models/", "404", {"\"code\":\"not_found\""}},
    {"GET /v1/models/a/b", "404", {"\"code\":\"not_found\""}},
    {"GET /v1/model", "404", {"\"code\":\"not_found\""}},
    {"GET /v1/modelss", "404", {"\"code\":\"not_found\""}},
    {"GET /a//b/2", "404", {"\"code\":\"not_found\""}},
    {"GET /V1/models", "404", {"\"code\":\"not_found\""}},
    {"PUT /v1/models", "405", {"allow: GET, HEAD\r\n", "\"code\":\"method_not_allowed\""}},
    {"PUT /v1/models/x", "405", {"allow: GET, HEAD, POST\r\n", "\"param\":null"}},
    {"get /v1/models", "405", {"allow: GET, HEAD\r\n"}},
    {"POST /a/1/b/2", "405", {"allow: GET, HEAD, DELETE\r\n"}},
    {"OPTIONS *", "400", {"must be a path"}},
    {"GET https://x/v1/models", "200", {"row 0  ."}},
    {"GET HTTP://other:8443/v1/models/abc?a=b", "200", {"row 1 abc ."}},
    {"GET https://x", "200", {"row 5  ."}},
    {"GET https://x?a", "200", {"row 5  ."}},
    {"GET https:///v1/models", "400", {"Host"}},
    {"GET https://user@x/v1/models", "400", {"Host"}},
    {"GET https://", "400", {"must be a path"}},
    {"GET ftp://x/v1/models", "400", {"must be a path"}},
};

static void test_rows(void **state)
{
    (void)state;
    struct http_kit kit = {0};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int fd = http_kit_connect(&kit);
        char request[256];
        snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                 rows[i].line);
        http_kit_send_text(fd, request);
        http_kit_read(fd, answer, sizeof(answer), NULL);
        if (strncmp(answer + 9, rows[i].code, 3) != 0)
            fail_msg("%s: %s", rows[i].line, answer);
        for (size_t w = 0; w < 2 && rows[i].wanted[w] != NULL; w++) {
            if (strstr(answer, rows[i].wanted[w]) == NULL)
                fail_msg("%s: no %s in %s", rows[i].line, rows[i].wanted[w], answer);
        }
        close(fd);
    }
    http_kit_stop(&kit);
}

/* The head of a GET's answer, length included, and nothing behind it; where nothing can be got, the
 * refusal's. */
static void test_heads(void **state)
{
    (void)state;
    const struct {
        const char *path;
        const char *wanted;
    } heads[] = {
        {"/v1/models/abc", "content-length: 11\r\n"},
        {"/", "content-length: "},
        {"/post", "allow: POST\r\n"},
        {"/nowhere", "HTTP/1.1 404"},
    };
    struct http_kit kit = {0};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    int fd = http_kit_connect(&kit);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        char request[256];
        snprintf(request, sizeof(request), "HEAD %s HTTP/1.1\r\nHost: x\r\n\r\n", heads[i].path);
        http_kit_send_text(fd, request);
        http_kit_read(fd, answer, sizeof(answer), "\r\n\r\n");
        for (char *at = strstr(answer, "Content-Length"); at != NULL; at = NULL)
            memcpy(at, "content-length", 14);
        if (strstr(answer, heads[i].wanted) == NULL)
            fail_msg("%s: no %s in %s", heads[i].path, heads[i].wanted, answer);
    }
    http_kit_send_text(fd, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    http_kit_read(fd, answer, sizeof(answer), NULL);
    assert_memory_equal(answer, "HTTP/1.1 200", 12); /* no bytes of a body were before it */
    close(fd);
    http_kit_stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_heads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
