/* https_client: certificates, names, framing of answers, bounds, time limits, kept connections. */
#include "gateway/upstream/https_client.c" /* connect_list: names have one address here */

#include "tests/unit/cli_kit.h"

static struct https_client_answer answer;

static struct https_client *open_client(const char *url, const char *ca, uint32_t timeout_ms)
{
    char path[128];
    struct https_client *https = NULL;
    cli_kit_path(path, ca);
    struct https_client_options options = {.url = url, .ca_file = path, .timeout_ms = timeout_ms};
    assert_int_equal(https_client_open(&https, &options), STATUS_OK);
    return https;
}

static enum status call(struct https_client *https, const char *method, const char *body)
{
    struct https_client_request request = {
        .method = method, .path = "/x?y=1", .headers = "a: b\r\n", .body = slice_of(body)};
    buffer_clear(&answer.body);
    return https_client_call(https, &request, &answer);
}

static int setup(void **state)
{
    cli_kit_clear(state);
    https_client_answer_init(&answer);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    https_client_answer_deinit(&answer);
    return 0;
}

static void test_urls(void **state)
{
    (void)state;
    static const char *const right[] = {"https://localhost", "https://localhost/", "https://a.b:1",
                                        "https://[::1]:65535", "https://[::1]"};
    static const char *const wrong[] = {
        "",
        "localhost:1",
        "http://localhost",
        "https://",
        "https://:1",
        "https://[]",
        "https://[::1",
        "https://a:0",
        "https://a:65536",
        "https://a:",
        "https://a:x",
        "https://a:1x",
        "https://a:1/path",
        "https://a/b",
        "https://u@a",
        "https://a b",
        "https://a\r\nb:",
        "https://[::1]x:1",
        "https://a?b",
        "https://a:99999999999",
    };
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        https_client_close(open_client(right[i], "tls/ca.crt", 1000));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct https_client *https = NULL;
        struct https_client_options options = {.url = wrong[i], .timeout_ms = 1000};
        if (https_client_open(&https, &options) != STATUS_INVALID)
            fail_msg("%s", wrong[i]);
        assert_string_equal(status_note()->param, "url");
        assert_null(https);
    }
    char host[400] = "https://";
    memset(host + 8, 'a', 256);
    struct https_client *https = NULL;
    struct https_client_options options = {.url = host, .timeout_ms = 1000};
    assert_int_equal(https_client_open(&https, &options), STATUS_INVALID);
    host[8 + 255] = '\0';
    assert_int_equal(https_client_open(&https, &options), STATUS_OK);
    https_client_close(https);
}

static void test_files_of_certificates(void **state)
{
    (void)state;
    struct https_client *https = NULL;
    struct https_client_options options = {
        .url = "https://localhost", .ca_file = "/nowhere/ca.crt", .timeout_ms = 1000};
    assert_int_equal(https_client_open(&https, &options), STATUS_IO);
    char path[128];
    cli_kit_path(path, "admin.key");
    options.ca_file = path;
    assert_int_equal(https_client_open(&https, &options), STATUS_IO);
}

static void test_a_connection_is_kept(void **state)
{
    (void)state;
    struct https_client *https = open_client(cli_kit_url(), "tls/ca.crt", 10000);
    cli_kit_answer(200, "{\"a\":1}");
    cli_kit_answer(404, "{}");
    cli_kit_say(CLI_KIT_KEEP, "HTTP/1.1 204 No\r\n\r\n");
    cli_kit_say(CLI_KIT_SHUT,
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nab");
    cli_kit_answer(201, "");
    assert_int_equal(call(https, "POST", "{}"), STATUS_OK);
    assert_int_equal(answer.code, 200);
    assert_string_equal(answer.body.bytes, "{\"a\":1}");
    assert_string_equal(answer.request_id, "req_7");
    assert_int_equal(call(https, "GET", ""), STATUS_OK);
    assert_int_equal(answer.code, 404);
    assert_int_equal(call(https, "DELETE", ""), STATUS_OK);
    assert_int_equal(answer.code, 204);
    assert_int_equal(answer.body.length, 0);
    assert_int_equal(call(https, "GET", ""), STATUS_OK);
    assert_int_equal(cli_kit.connections, 1);
    assert_int_equal(call(https, "GET", ""), STATUS_OK);
    assert_int_equal(answer.code, 201);
    assert_int_equal(cli_kit.connections, 2);
    char head[256];
    snprintf(head, sizeof head,
             "POST /x?y=1 HTTP/1.1\r\nhost: 127.0.0.1:%d\r\naccept: */*\r\na: b\r\n"
             "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}GET /x?y=1 ",
             cli_kit.port);
    cli_kit_has(cli_kit.seen, head);
    https_client_close(https);
}

static void test_framings(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        enum cli_kit_end end;
        enum status status;
        const char *body;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: "
         "chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
         CLI_KIT_KEEP, STATUS_OK, "abcde"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\nx: y\r\n\r\n", CLI_KIT_KEEP,
         STATUS_OK, ""},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nlink: x\r\n\r\n"
         "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
         CLI_KIT_KEEP, STATUS_OK, "ok"},
        {"HTTP/1.1 200 OK\r\n\r\nto the end", CLI_KIT_SHUT, STATUS_OK, "to the end"},
        {"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", CLI_KIT_SHUT, STATUS_OK, "ok"},
        {"HTTP/1.1 304 Not\r\ncontent-length: 7\r\n\r\n", CLI_KIT_KEEP, STATUS_OK, ""},
        /* Cut short: never taken for whole. */
        {"HTTP/1.1 200 OK\r\n\r\nto the end", CLI_KIT_DROP, STATUS_IO, NULL},
        {"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", CLI_KIT_SHUT, STATUS_IO, NULL},
        {"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", CLI_KIT_DROP, STATUS_IO, NULL},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nab", CLI_KIT_SHUT, STATUS_IO,
         NULL},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n", CLI_KIT_DROP,
         STATUS_IO, NULL},
        {"HTTP/1.1 200 OK\r\ncontent-le", CLI_KIT_SHUT, STATUS_IO, NULL},
        {"", CLI_KIT_DROP, STATUS_IO, NULL},
        /* No HTTP, or not as it should be. */
        {"220 mail ready\r\n\r\n", CLI_KIT_KEEP, STATUS_PROTOCOL, NULL},
        {"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", CLI_KIT_KEEP, STATUS_PROTOCOL, NULL},
        {"HTTP/1.1 200 OK\r\ncontent-length: \r\n\r\n", CLI_KIT_KEEP, STATUS_PROTOCOL, NULL},
        {"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 2\r\n\r\nab", CLI_KIT_KEEP,
         STATUS_PROTOCOL, NULL},
        {"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
         CLI_KIT_KEEP, STATUS_PROTOCOL, NULL},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n", CLI_KIT_KEEP,
         STATUS_PROTOCOL, NULL},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", CLI_KIT_KEEP,
         STATUS_PROTOCOL, NULL},
        {"HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n", CLI_KIT_KEEP, STATUS_PROTOCOL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct https_client *https = open_client(cli_kit_url(), "tls/ca.crt", 10000);
        cli_kit_clear(state);
        cli_kit_say(rows[i].end, rows[i].bytes);
        enum status status = call(https, "GET", "");
        if (status != rows[i].status)
            fail_msg("%s: %s (%s)", rows[i].bytes, status_name(status), status_note()->message);
        if (rows[i].body != NULL)
            assert_string_equal(answer.body.bytes != NULL ? answer.body.bytes : "", rows[i].body);
        https_client_close(https);
    }
}

/* An answer of exactly the limit is taken, one byte more is not, however its length is told. */
static void test_longest_answer(void **state)
{
    size_t most = LIMIT_HTTPS_ANSWER_BYTES;
    char *bytes = malloc(most + 256);
    assert_non_null(bytes);
    for (int over = 0; over < 2; over++) {
        int head = snprintf(bytes, 128, "HTTP/1.1 200 OK\r\ncontent-length: %zu\r\n\r\n",
                            most + (size_t)over);
        memset(bytes + head, 'x', most + (size_t)over);
        bytes[(size_t)head + most + (size_t)over] = '\0';
        struct https_client *https = open_client(cli_kit_url(), "tls/ca.crt", 30000);
        cli_kit_clear(state);
        cli_kit_say(CLI_KIT_SHUT, bytes);
        assert_int_equal(call(https, "GET", ""), over == 0 ? STATUS_OK : STATUS_PROTOCOL);
        if (over == 0)
            assert_int_equal(answer.body.length, most);
        https_client_close(https);
    }
    int head = snprintf(bytes, 128, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%zx\r\n",
                        most + 1);
    memset(bytes + head, 'x', most + 1);
    memcpy(bytes + head + most + 1, "\r\n0\r\n\r\n", 8);
    struct https_client *https = open_client(cli_kit_url(), "tls/ca.crt", 30000);
    cli_kit_clear(state);
    cli_kit_say(CLI_KIT_SHUT, bytes);
    assert_int_equal(call(https, "GET", ""), STATUS_PROTOCOL);
    https_client_close(https);
    /* A head that does not end. */
    memset(bytes, 'x', LIMIT_HEAD_BYTES + 100);
    memcpy(bytes, "HTTP/1.1 200 OK\r\nx: ", 20);
    bytes[LIMIT_HEAD_BYTES + 100] = '\0';
    https = open_client(cli_kit_url(), "tls/ca.crt", 30000);
    cli_kit_clear(state);
    cli_kit_say(CLI_KIT_HANG, bytes);
    assert_int_equal(call(https, "GET", ""), STATUS_PROTOCOL);
    https_client_close(https);
    free(bytes);
}

static void test_retry_after(void **state)
{
    static const struct {
        const char *headers;
        uint32_t ms;
    } rows[] = {
        {"", 0},
        {"retry-after: 2\r\n", 2000},
        {"retry-after-ms: 150\r\nretry-after: 1\r\n", 150},
        {"retry-after: 1\r\nretry-after-ms: 150\r\n", 150},
        {"retry-after: soon\r\n", 0},
        {"retry-after: 99999999999\r\n", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char bytes[256];
        struct https_client *https = open_client(cli_kit_url(), "tls/ca.crt", 10000);
        cli_kit_clear(state);
        answer.retry_after_ms = 0;
        snprintf(bytes, sizeof bytes, "HTTP/1.1 503 No\r\n%scontent-length: 0\r\n\r\n",
                 rows[i].headers);
        cli_kit_say(CLI_KIT_KEEP, bytes);
        assert_int_equal(call(https, "GET", ""), STATUS_OK);
        assert_int_equal(answer.retry_after_ms, rows[i].ms);
        https_client_close(https);
    }
}

static void test_nobody_there(void **state)
{
    (void)state;
    char url[64];
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof name;
    int taken = socket(AF_INET, SOCK_STREAM, 0); /* bound, but nobody listens */
    assert_int_equal(bind(taken, (struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(getsockname(taken, (struct sockaddr *)&name, &length), 0);
    snprintf(url, sizeof url, "https://127.0.0.1:%d", ntohs(name.sin_port));
    struct https_client *https = open_client(url, "tls/ca.crt", 10000);
    assert_int_equal(call(https, "GET", ""), STATUS_UNAVAILABLE);
    cli_kit_has(status_note()->message, "nobody answers");
    https_client_close(https);
    close(taken);
}

/* The server's certificate is right for localhost and 127.0.0.1, from its own authority alone. */
static void test_trust(void **state)
{
    (void)state;
    char url[64];
    struct https_client *https = NULL;
    struct https_client_options system = {.url = cli_kit_url(), .timeout_ms = 10000};
    assert_int_equal(https_client_open(&https, &system), STATUS_OK);
    assert_int_equal(call(https, "GET", ""), STATUS_FORBIDDEN);
    cli_kit_has(status_note()->message, "is not trusted");
    https_client_close(https);
    snprintf(url, sizeof url, "https://127.0.0.2:%d", cli_kit.port);
    https = open_client(url, "tls/ca.crt", 10000);
    assert_int_equal(call(https, "GET", ""), STATUS_FORBIDDEN);
    cli_kit_has(status_note()->message, "IP address mismatch");
    https_client_close(https);
    snprintf(url, sizeof url, "https://localhost:%d", cli_kit.port);
    https = open_client(url, "tls/ca.crt", 10000);
    cli_kit_answer(200, "{}");
    assert_int_equal(call(https, "GET", ""), STATUS_OK);
    https_client_close(https);
    assert_int_equal(cli_kit.steps_done, 1); /* nothing was asked of a server that is not trusted */
}

/* A listener whose queue is full: what else connects waits without an answer. */
static struct sockaddr_in silent_address(int *listener, int *others, size_t count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(*listener, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(*listener, 0), 0);
    assert_int_equal(getsockname(*listener, (struct sockaddr *)&address, &length), 0);
    for (size_t i = 0; i < count; i++) {
        others[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(others[i], (struct sockaddr *)&address, length);
    }
    return address;
}

static void test_an_address_that_swallows(void **state)
{
    (void)state;
    enum { OTHERS = 16 };
    int listener;
    int others[OTHERS];
    struct sockaddr_in silent = silent_address(&listener, others, OTHERS);
    struct sockaddr_in right = silent;
    right.sin_port = htons((uint16_t)cli_kit.port);
    struct addrinfo second = {
        .ai_family = AF_INET, .ai_addr = (struct sockaddr *)&right, .ai_addrlen = sizeof right};
    struct addrinfo first = {.ai_family = AF_INET,
                             .ai_addr = (struct sockaddr *)&silent,
                             .ai_addrlen = sizeof silent,
                             .ai_next = &second};
    struct https_client *https = open_client(cli_kit_url(), "tls/ca.crt", 10000);
    https->deadline_us = clock_mono_us(clock_system()) + 400000;
    struct addrinfo alone = first;
    alone.ai_next = NULL;
    assert_int_equal(connect_list(https, &alone), STATUS_DEADLINE);
    assert_int_equal(https->descriptor, -1);
    int64_t deadline_us = clock_mono_us(clock_system()) + 2000000;
    https->deadline_us = deadline_us;
    assert_int_equal(connect_list(https, &first), STATUS_OK);
    assert_int_equal(https->deadline_us, deadline_us);
    struct sockaddr_in reached;
    socklen_t length = sizeof reached;
    assert_int_equal(getpeername(https->descriptor, (struct sockaddr *)&reached, &length), 0);
    assert_int_equal(reached.sin_port, right.sin_port);
    https_client_close(https);
    for (size_t i = 0; i < OTHERS; i++)
        close(others[i]);
    close(listener);
}

static void test_deadline(void **state)
{
    (void)state;
    struct https_client *https = open_client(cli_kit_url(), "tls/ca.crt", 300);
    cli_kit_say(CLI_KIT_HANG, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab");
    assert_int_equal(call(https, "GET", ""), STATUS_DEADLINE);
    https_client_close(https);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_urls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_of_certificates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_connection_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_framings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_longest_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_retry_after, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_trust, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_address_that_swallows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadline, setup, teardown),
    };
    return cmocka_run_group_tests(tests, cli_kit_setup, cli_kit_teardown);
}
