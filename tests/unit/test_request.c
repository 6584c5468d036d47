/* request: a handler's view over real sockets: bodies, streams, back-pressure, clients that leave.
 */
#include "http_kit.h"

#include "config/base/limits.h"
#include "config/base/mem.h"

enum { READ_BYTES = 1 << 20 };

static char answer[READ_BYTES];
static _Atomic int gone_early;
static _Atomic int gone_late;
static _Atomic int half_closes;
static _Atomic int drains;
static _Atomic int starts;

static void on_gone(void *context, bool is_early)
{
    (void)context;
    atomic_fetch_add(is_early ? &gone_early : &gone_late, 1);
}

static void reset(void)
{
    gone_early = gone_late = half_closes = drains = starts = 0;
}

static void handle_echo(struct http_request *request, void *context)
{
    (void)context;
    starts++;
    http_on_gone(request, on_gone, NULL);
    struct buffer out;
    buffer_init(&out, READ_BYTES);
    buffer_append_slice(&out, http_method(request));
    buffer_append_char(&out, '|');
    buffer_append_slice(&out, http_path(request));
    buffer_append_char(&out, '|');
    buffer_append_slice(&out, http_query(request));
    buffer_append_char(&out, '|');
    buffer_append_slice(&out, http_header_get(request, "x-test"));
    buffer_append_char(&out, '|');
    buffer_append_slice(&out, http_body(request));
    buffer_append_text(&out, "|end");
    http_respond_json(request, 200, buffer_slice(&out));
    buffer_deinit(&out);
}

static void test_echo(void **state)
{
    (void)state;
    reset();
    struct http_kit kit = {0};
    http_kit_start(&kit, false,
                   (struct listener_options){.handler = handle_echo, .makes_request_ids = true});
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "POST /a/b?c=d HTTP/1.1\r\nHost: x\r\nX-Test: 7\r\n"
                           "Content-Length: 5\r\n\r\nhello");
    http_kit_read(fd, answer, sizeof(answer), "|end");
    assert_non_null(strstr(answer, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(answer, "POST|/a/b|c=d|7|hello|end"));
    assert_non_null(strstr(answer, "x-request-id: req_"));
    assert_null(strstr(answer, "Server:"));
    http_kit_send_text(fd, "GET /second HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_read(fd, answer, sizeof(answer), "|end");
    assert_non_null(strstr(answer, "GET|/second||||end"));
    http_kit_wait(&gone_late, 2);
    assert_int_equal(gone_early, 0);
    close(fd);
    http_kit_stop(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
