/* h2_sweep: what no handler sees is bounded too: vanishing streams, heaps of bodies, slow ones. */
#include "http_kit_tls.h"

#include "config/base/clock.h"
#include "config/base/limits.h"

enum { BODY_MAX = 64 * 1024 };

static _Atomic int starts;
static char answer[65536];

static void handle(struct http_request *request, void *context)
{
    (void)context;
    starts++;
    http_respond_json(request, 200, SLICE("{}"));
}

struct client {
    struct http_kit_tls tls;
    struct http_kit kit;
    SSL *ssl;
    struct buffer out;
};

static void client_start(struct client *client, uint32_t arrival_ms_max)
{
    starts = 0;
    http_kit_tls_start(&client->tls);
    client->kit = (struct http_kit){.tls = client->tls.server};
    http_kit_start(&client->kit, false,
                   (struct listener_options){.handler = handle,
                                             .body_bytes_max = BODY_MAX,
                                             .arrival_ms_max = arrival_ms_max,
                                             .unread_ms_max = 100});
    client->ssl = http_kit_tls_connect(&client->tls, &client->kit, true);
    assert_non_null(client->ssl);
    buffer_init(&client->out, 1 << 24);
    http_kit_h2_preface(&client->out);
}

static void client_flush(struct client *client)
{
    http_kit_tls_send(client->ssl, client->out.bytes, client->out.length);
    buffer_clear(&client->out);
}

static void client_stop(struct client *client)
{
    http_kit_tls_drop(client->ssl);
    buffer_deinit(&client->out);
    http_kit_stop(&client->kit);
    http_kit_tls_stop(&client->tls);
}

/* True when the connection still answers a request on `stream`. */
static bool client_is_served(struct client *client, uint32_t stream)
{
    static struct http_kit_h2_frame frame;
    http_kit_h2_request(&client->out, stream, "GET", "/", NULL, true);
    client_flush(client);
    do {
        if (!http_kit_h2_read(client->ssl, &frame))
            return false;
    } while (frame.type != H2_DATA || frame.stream != stream);
    return true;
}

/* Streams that are reset before their request is whole: no handler ever hears of them. */
static void test_vanishing_streams(void **state)
{
    (void)state;
    for (int count = LIMIT_STREAMS_JUDGED - 1; count <= LIMIT_STREAMS_JUDGED; count++) {
        struct client client;
        client_start(&client, 0);
        for (int i = 0; i < count; i++) {
            http_kit_h2_request(&client.out, 1 + 2 * (uint32_t)i, "POST", "/", NULL, false);
            http_kit_h2_reset(&client.out, 1 + 2 * (uint32_t)i);
        }
        client_flush(&client);
        if (count < LIMIT_STREAMS_JUDGED) {
            usleep(300000); /* three sweeps */
            http_kit_wait_connections(&client.kit, 1, 1);
        } else {
            http_kit_wait_connections(&client.kit, 0, 0);
        }
        assert_int_equal(starts, 0);
        client_stop(&client);
    }
}

/* Twice the body limit in bodies that do not end, and one byte more. */
static void test_heap_of_bodies(void **state)
{
    (void)state;
    static char piece[16000];
    for (size_t more = 0; more < 2; more++) {
        struct client client;
        client_start(&client, 0);
        size_t left = 2 * BODY_MAX + more;
        for (uint32_t i = 0; i < 4; i++) {
            size_t bytes = i < 3 ? BODY_MAX / 2 : left; /* none is over the limit by itself */
            left -= bytes;
            http_kit_h2_request(&client.out, 1 + 2 * i, "POST", "/", NULL, false);
            while (bytes > 0) {
                size_t length = bytes < sizeof(piece) ? bytes : sizeof(piece);
                http_kit_h2_frame(&client.out, H2_DATA, 0, 1 + 2 * i, piece, length);
                bytes -= length;
            }
        }
        client_flush(&client);
        if (more == 0) {
            usleep(300000);
            assert_true(client_is_served(&client, 9));
        } else {
            http_kit_wait_connections(&client.kit, 0, 0);
            assert_int_equal(starts, 0);
        }
        client_stop(&client);
    }
}

/* Until then it has been let live: the ages below are 600 ms, by the loop's clock of each turn. */
static bool has_lived(int64_t begin_us)
{
    return clock_mono_us(clock_system()) - begin_us >= 500000;
}

/* A body that trickles is ended by its age, over HTTP/2 and over HTTP/1. */
static void test_slow_bodies(void **state)
{
    (void)state;
    struct client client;
    int64_t begin_us = clock_mono_us(clock_system());
    client_start(&client, 600);
    http_kit_h2_request(&client.out, 1, "POST", "/", NULL, false);
    while (http_kit_count(&client.kit).connections > 0) {
        http_kit_h2_frame(&client.out, H2_DATA, 0, 1, "x", 1);
        if (SSL_write(client.ssl, client.out.bytes, (int)client.out.length) <= 0)
            break;
        buffer_clear(&client.out);
        usleep(50000);
    }
    assert_true(has_lived(begin_us));
    http_kit_wait_connections(&client.kit, 0, 0);
    client_stop(&client);

    struct http_kit kit = {0};
    begin_us = clock_mono_us(clock_system());
    http_kit_start(&kit, true, (struct listener_options){.handler = handle, .arrival_ms_max = 600});
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n");
    while (send(fd, "x", 1, MSG_NOSIGNAL) == 1)
        usleep(50000);
    assert_true(has_lived(begin_us));
    assert_int_equal(http_kit_read(fd, answer, sizeof(answer), NULL), 0);
    assert_int_equal(starts, 0);
    close(fd);
    http_kit_stop(&kit);
}

/* Frames without any stream put off libh2o's idle timer; the connection's age ends them. */
static void test_frames_without_a_stream(void **state)
{
    (void)state;
    struct client client;
    int64_t begin_us = clock_mono_us(clock_system());
    client_start(&client, 600);
    while (http_kit_count(&client.kit).connections > 0) {
        http_kit_h2_frame(&client.out, 2 /* PRIORITY */, 0, 9, "\0\0\0\0\5", 5);
        if (SSL_write(client.ssl, client.out.bytes, (int)client.out.length) <= 0)
            break;
        buffer_clear(&client.out);
        usleep(50000);
    }
    assert_true(has_lived(begin_us));
    http_kit_wait_connections(&client.kit, 0, 0);
    client_stop(&client);
}

/* A stream whose window stays shut ends alone; the connection goes on. */
static void test_one_unread_stream(void **state)
{
    (void)state;
    struct client client;
    static struct http_kit_h2_frame frame;
    client_start(&client, 0);
    http_kit_h2_frame(&client.out, H2_SETTINGS, 0, 0, "\0\4\0\0\0\0", 6); /* windows of nothing */
    for (uint32_t stream = 1; stream <= 5; stream += 2)
        http_kit_h2_request(&client.out, stream, "GET", "/", NULL, true);
    client_flush(&client);
    for (int resets = 0; resets < 3;) {
        assert_true(http_kit_h2_read(client.ssl, &frame));
        assert_int_not_equal(frame.type, H2_GOAWAY);
        if (frame.type != H2_RST_STREAM)
            continue;
        assert_memory_equal(frame.payload, "\0\0\0\x08", 4);
        resets++;
    }
    http_kit_h2_frame(&client.out, H2_SETTINGS, 0, 0, "\0\4\0\0\xff\xff", 6);
    assert_true(client_is_served(&client, 7));
    assert_int_equal(starts, 4);
    client_stop(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vanishing_streams), cmocka_unit_test(test_heap_of_bodies),
        cmocka_unit_test(test_slow_bodies),       cmocka_unit_test(test_frames_without_a_stream),
        cmocka_unit_test(test_one_unread_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
