/* edge_hold: a request's body is held once, booked until the engine has it, and sent as it came. */
#include "http_kit.h"

#include "gateway/edge/state/edge_hold.h"

enum { MEMORY_BYTES = 64 << 20, BODY_BYTES = 256 << 10, ANSWER_BYTES = 1 << 20 };

static struct edge_metrics metrics;
static struct edge_memory *memory;
static _Atomic int handled;
static char body[BODY_BYTES + 1];

static double booked(void)
{
    return metric_value(metrics.memory_tenants);
}

/* One request through its life; what fails here ends the test's process. */
static void handle(struct http_request *request, void *context)
{
    (void)context;
    static const uint8_t tenant[16] = {1};
    struct edge_hold hold;
    const size_t length = http_body(request).length;
    assert_int_equal(edge_hold_begin(&hold, memory, request, tenant), STATUS_OK);
    assert_true(booked() == (double)(LIMIT_MEMORY_REQUEST_BYTES + length));
    assert_true(slice_equals(edge_hold_body(&hold, request), (struct slice){body, length}));
    assert_int_equal(edge_hold_take_body(&hold, request), STATUS_OK);
    assert_int_equal(edge_hold_take_body(&hold, request), STATUS_OK);
    assert_int_equal(http_body(request).length, length > HTTP_BODY_KEPT ? 0 : length);
    assert_true(slice_equals(edge_hold_body(&hold, request), (struct slice){body, length}));
    assert_int_equal(edge_hold_set(&hold, memory, ANSWER_BYTES), STATUS_OK);
    assert_true(booked() == (double)(LIMIT_MEMORY_REQUEST_BYTES + length + ANSWER_BYTES));
    edge_hold_drop_body(&hold);
    assert_null(hold.body.bytes);
    assert_int_equal(hold.body_bytes, length);
    /* Over the share: told, unless it is little of one answer. */
    assert_int_equal(edge_hold_set(&hold, memory, MEMORY_BYTES), STATUS_MEMORY_SHARE);
    assert_int_equal(edge_hold_set(&hold, memory, LIMIT_ANSWER_SHARE_BYTES), STATUS_OK);
    struct edge_hold other;
    assert_int_equal(edge_hold_begin(&other, memory, request, tenant), STATUS_OK);
    assert_int_equal(edge_hold_set(&other, memory, MEMORY_BYTES), STATUS_MEMORY_SHARE);
    assert_int_equal(edge_hold_set(&hold, memory, LIMIT_ANSWER_SHARE_BYTES + 1),
                     STATUS_MEMORY_SHARE);
    assert_int_equal(edge_hold_set(&hold, memory, 0), STATUS_OK);
    assert_int_equal(edge_hold_set(&hold, memory, LIMIT_ANSWER_SHARE_BYTES), STATUS_OK);
    edge_hold_end(&other, memory);
    edge_hold_end(&hold, memory);
    edge_hold_end(&hold, memory);
    assert_true(booked() == 0);
    atomic_fetch_add(&handled, 1);
    http_respond_json(request, 200, SLICE("{}"));
}

static void test_a_request_through_its_life(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, HTTP_BODY_KEPT, HTTP_BODY_KEPT + 1, BODY_BYTES};
    struct http_kit kit = {0};
    char answer[1024];
    memset(body, 'b', sizeof body - 1);
    assert_int_equal(edge_metrics_init(&metrics), STATUS_OK);
    assert_int_equal(edge_memory_create(&memory, MEMORY_BYTES, &metrics), STATUS_OK);
    http_kit_start(&kit, true,
                   (struct listener_options){.handler = handle, .body_bytes_max = BODY_BYTES});
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char head[128];
        int fd = http_kit_connect(&kit);
        snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
                 lengths[i]);
        http_kit_send_text(fd, head);
        http_kit_send(fd, body, lengths[i]);
        http_kit_wait(&handled, (int)i + 1);
        http_kit_read(fd, answer, sizeof answer, "{}");
        close(fd);
    }
    http_kit_stop(&kit);
    edge_memory_destroy(memory);
    edge_metrics_deinit(&metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_request_through_its_life)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
