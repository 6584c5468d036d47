/* admin_call: a call holds copies of its request, which live on without it. */
#include "gateway/admin/admin_call.h"

#include "config/base/mem.h"
#include "http_kit.h"

static struct admin admin;

/* Two copies of one request, one compared after the other was freed; then one without memory. */
static void handle(struct http_request *request, void *context)
{
    (void)context;
    struct admin_call *first = admin_call_create(&admin, request);
    struct admin_call *call = admin_call_create(&admin, request);
    ASSERT(first != NULL);
    buffer_append_text(&first->out, "sk-by-secret");
    admin_call_destroy(first);
    struct buffer out;
    buffer_init(&out, 4096);
    const struct slice parts[] = {call->method, call->path, call->query, call->body,
                                  call->if_match};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        buffer_append_slice(&out, parts[i]);
        buffer_append_char(&out, '|');
    }
    bool is_copy = call->body.bytes != http_body(request).bytes;
    buffer_append_text(&out, is_copy ? "copy" : "borrowed");
    buffer_append_text(&out, call->if_none_match.bytes == NULL ? "|none" : "|some");
    buffer_append_text(&out, call->idempotency_key.bytes == NULL ? "|none" : "|some");
    buffer_printf(&out, "|%d|%s|%zu", call->code, call->content_type, call->arguments[0].length);
    admin_call_destroy(call);
    admin_call_destroy(NULL);
    http_respond_json(request, 200, buffer_slice(&out));
    buffer_deinit(&out);
}

static void ask(const char *text, const char *wanted)
{
    char answer[4096];
    struct http_kit kit = {0};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, text);
    http_kit_read(fd, answer, sizeof answer, NULL);
    close(fd);
    http_kit_stop(&kit);
    if (strstr(answer, wanted) == NULL)
        fail_msg("%s", answer);
}

static void test_copies(void **state)
{
    (void)state;
    ask("PATCH /a/b?dry_run=true HTTP/1.1\r\nhost: x\r\nconnection: close\r\nif-match: \"3\"\r\n"
        "idempotency-key: k\r\ncontent-length: 4\r\n\r\nbody",
        "PATCH|/a/b|dry_run=true|body|\"3\"|copy|none|some|200|application/json|0");
    ask("POST /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\nif-none-match: *\r\n"
        "content-length: 0\r\n\r\n",
        "POST|/a||||copy|some|none|200|application/json|0");
}

static int fail_all(void *context, size_t bytes)
{
    (void)context;
    return bytes >= sizeof(struct admin_call);
}

static _Atomic int refused;

static void handle_without_memory(struct http_request *request, void *context)
{
    (void)context;
    mem_hook_set(fail_all, NULL);
    refused = admin_call_create(&admin, request) == NULL;
    mem_hook_set(NULL, NULL);
    http_respond_json(request, 200, SLICE("over"));
}

static void test_no_memory(void **state)
{
    (void)state;
    char answer[4096];
    struct http_kit kit = {0};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle_without_memory});
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    http_kit_read(fd, answer, sizeof answer, NULL);
    close(fd);
    http_kit_stop(&kit);
    assert_int_equal(refused, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
