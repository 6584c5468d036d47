/* h2_arrival: over HTTP/2, a head whose body is not there yet is looked at: strangers are answered
 * without it, who waits for a 100 gets one, and the connection and its other streams go on. */
#include "arrival_kit.h"
#include "config/base/limits_door.h"

static SSL *ssl;
static struct buffer out;
static struct http_kit_h2_frame frame;

static void begin(struct listener_options options)
{
    kit_start(options);
    ssl = http_kit_tls_connect(&kit_tls, &kit_server, true);
    assert_non_null(ssl);
    buffer_init(&out, 1 << 24);
    http_kit_h2_preface(&out);
}

static void end(void)
{
    http_kit_tls_drop(ssl);
    buffer_deinit(&out);
    kit_stop();
}

static void flush(void)
{
    http_kit_tls_send(ssl, out.bytes, out.length);
    buffer_clear(&out);
}

/* HEADERS without END_STREAM; `key` and `length` may be NULL. */
static void put_head(uint32_t stream, const char *key, const char *length, bool expects)
{
    struct buffer block;
    buffer_init(&block, 4096);
    http_kit_h2_field(&block, ":method", "POST");
    http_kit_h2_field(&block, ":scheme", "https");
    http_kit_h2_field(&block, ":authority", "localhost");
    http_kit_h2_field(&block, ":path", "/");
    if (key != NULL)
        http_kit_h2_field(&block, "x-api-key", key);
    if (length != NULL)
        http_kit_h2_field(&block, "content-length", length);
    if (expects)
        http_kit_h2_field(&block, "expect", "100-continue");
    http_kit_h2_frame(&out, H2_HEADERS, H2_END_HEADERS, stream, block.bytes, block.length);
    buffer_deinit(&block);
}

static void put_body(uint32_t stream, size_t bytes, bool is_end)
{
    for (size_t left = bytes, length; left > 0; left -= length) {
        length = left < sizeof(kit_piece) ? left : sizeof(kit_piece);
        http_kit_h2_frame(&out, H2_DATA, is_end && length == left ? H2_END_STREAM : 0, stream,
                          kit_piece, length);
    }
}

/* The stream's next frame; other streams' and the connection's are passed over. */
static void next_frame(uint32_t stream)
{
    do
        assert_true(http_kit_h2_read(ssl, &frame));
    while (frame.stream != stream || frame.type == H2_WINDOW_UPDATE);
}

/* The answer's body, which ends its stream. */
static void answer_is(uint32_t stream, const char *text)
{
    do
        next_frame(stream);
    while (frame.type == H2_HEADERS);
    assert_int_equal(frame.type, H2_DATA);
    assert_int_equal(frame.length, strlen(text));
    assert_memory_equal(frame.payload, text, frame.length);
    assert_true((frame.flags & H2_END_STREAM) != 0);
}

/* Answered without the body, whose DATA is dropped then, in front of the answer and behind it; the
 * stream is ended without an error, and the connection goes on. */
static void test_strangers_are_answered_at_once(void **state)
{
    (void)state;
    begin((struct listener_options){0});
    put_head(1, NULL, NULL, true);
    put_head(3, "wrong", "100000", false);
    put_body(3, 50000, false);
    flush();
    answer_is(1, "key  body 0 right");
    next_frame(1);
    assert_int_equal(frame.type, H2_RST_STREAM);
    assert_memory_equal(frame.payload, "\0\0\0\0", 4);
    http_kit_wait(&kit_starts, 2);
    put_body(1, 50000, true);
    put_body(3, 50000, true);
    put_head(5, "known", "3", false);
    put_body(5, 3, true);
    flush();
    answer_is(5, "key known body 3 right");
    end();
}

/* A client without a key sends heads and resets its connection while they are answered: the write
 * fails, and libh2o disposes of all streams of a connection that it still calls open. Nothing that
 * is done then may outlive the connection. */
static void test_a_reset_before_the_answers_are_written(void **state)
{
    (void)state;
    const struct linger at_once = {.l_onoff = 1};
    for (uint32_t streams = 1; streams <= 8; streams *= 2) {
        begin((struct listener_options){0});
        kit_holds = true;
        for (uint32_t i = 0; i < streams; i++)
            put_head(1 + 2 * i, i == 0 ? "hold" : NULL, NULL, false);
        flush();
        http_kit_wait(&kit_starts, 1);
        assert_int_equal(
            setsockopt(SSL_get_fd(ssl), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
        http_kit_tls_drop(ssl);
        kit_holds = false;
        /* The loop goes on: with what was left in its timers, too. */
        ssl = http_kit_tls_connect(&kit_tls, &kit_server, true);
        assert_non_null(ssl);
        http_kit_h2_preface(&out);
        put_head(1, "known", "3", false);
        put_body(1, 3, true);
        flush();
        answer_is(1, "key known body 3 right");
        end();
    }
}

/* "x-api-key: known", to be remembered by the table of HPACK (RFC 7541, 6.2.1). */
static void put_remembered_key(struct buffer *block)
{
    size_t start = block->length;
    http_kit_h2_field(block, "x-api-key", "known");
    block->bytes[start] = 0x40;
}

/* Of more streams at once than any list of a few would hold: bodies and trailers are dropped, in
 * front of the answers and behind them, in one frame and in two. What the trailers put into the
 * table of HPACK is there for the next stream. */
static void test_trailers_of_strangers_are_dropped(void **state)
{
    (void)state;
    enum { STREAMS = 90 };
    begin((struct listener_options){0});
    for (uint32_t i = 0; i < STREAMS; i++)
        put_head(1 + 2 * i, NULL, NULL, false);
    flush();
    answer_is(1 + 2 * (STREAMS - 1), "key  body 0 right");
    struct buffer block;
    buffer_init(&block, 4096);
    put_remembered_key(&block);
    for (uint32_t i = 0; i < STREAMS; i++) {
        put_body(1 + 2 * i, 10, false);
        http_kit_h2_frame(&out, H2_HEADERS, H2_END_STREAM, 1 + 2 * i, block.bytes, 3);
        http_kit_h2_frame(&out, H2_CONTINUATION, H2_END_HEADERS, 1 + 2 * i, block.bytes + 3,
                          block.length - 3);
    }
    put_head(1 + 2 * STREAMS, NULL, NULL, false);
    put_body(1 + 2 * STREAMS, 10, false);
    http_kit_h2_frame(&out, H2_HEADERS, H2_END_STREAM | H2_END_HEADERS, 1 + 2 * STREAMS,
                      block.bytes, block.length);
    buffer_clear(&block);
    http_kit_h2_field(&block, ":method", "GET");
    http_kit_h2_field(&block, ":scheme", "https");
    http_kit_h2_field(&block, ":authority", "localhost");
    http_kit_h2_field(&block, ":path", "/");
    buffer_append_char(&block, (char)0xbe); /* the newest of the table */
    http_kit_h2_frame(&out, H2_HEADERS, H2_END_STREAM | H2_END_HEADERS, 3 + 2 * STREAMS,
                      block.bytes, block.length);
    buffer_deinit(&block);
    flush();
    answer_is(3 + 2 * STREAMS, "key known body 0 right");
    end();
}

/* Trailers that go on with another stream's frame end the connection, as a head that does. libh2o
 * says why when no write is under way. */
static void test_trailers_without_end(void **state)
{
    (void)state;
    begin((struct listener_options){0});
    put_head(1, NULL, NULL, false);
    flush();
    answer_is(1, "key  body 0 right");
    http_kit_h2_frame(&out, H2_HEADERS, H2_END_STREAM, 1, "", 0);
    put_head(3, "known", NULL, false);
    flush();
    while (http_kit_h2_read(ssl, &frame)) {
        if (frame.type == H2_GOAWAY)
            assert_memory_equal(frame.payload + 4, "\0\0\0\x01", 4); /* PROTOCOL_ERROR */
    }
    assert_int_equal(kit_claims, 1); /* nobody asked whose stream 3 is */
    end();
}

/* Larger than the connection's window in all: what is dropped opens it again. */
static void test_dropped_bodies_give_the_window_back(void **state)
{
    (void)state;
    enum { WINDOW = 16 * 1024 * 1024 };
    begin((struct listener_options){0});
    size_t given = 0;
    put_head(1, NULL, NULL, false);
    flush();
    answer_is(1, "key  body 0 right");
    for (size_t sent = 0; sent < WINDOW * 3 / 4; sent += 4 * sizeof(kit_piece)) {
        put_body(1, 4 * sizeof(kit_piece), false);
        flush();
    }
    put_head(3, "known", "3", false);
    put_body(3, 3, true);
    flush();
    do {
        assert_true(http_kit_h2_read(ssl, &frame));
        if (frame.type == H2_WINDOW_UPDATE && frame.stream == 0)
            given += ((size_t)frame.payload[0] << 24) | ((size_t)frame.payload[1] << 16) |
                     ((size_t)frame.payload[2] << 8) | frame.payload[3];
    } while (frame.stream != 3 || frame.type != H2_DATA);
    assert_true(given > WINDOW / 4);
    end();
}

/* Who waits for a 100 gets it, and the body comes whole; a large one, and several at once. */
static void test_known_bodies_come_whole(void **state)
{
    (void)state;
    static const unsigned char status_100[] = {0x08, 0x03, '1', '0', '0'};
    begin((struct listener_options){0});
    put_head(1, "known", "200000", true);
    flush();
    next_frame(1);
    assert_int_equal(frame.type, H2_HEADERS);
    assert_int_equal(frame.flags, H2_END_HEADERS);
    assert_int_equal(frame.length, sizeof(status_100));
    assert_memory_equal(frame.payload, status_100, sizeof(status_100));
    put_head(3, "known", NULL, false);
    put_body(3, 100000, false);
    put_body(1, 200000, true);
    flush();
    answer_is(1, "key known body 200000 right");
    put_body(3, KIT_BODY_MAX - 100000, true);
    flush();
    answer_is(3, "key known body 262144 right");
    end();
}

/* Three bodies as large as the limit on one connection are a tenant's right, not a heap. */
static void test_known_bodies_are_no_heap(void **state)
{
    (void)state;
    begin((struct listener_options){0});
    for (uint32_t stream = 1; stream <= 5; stream += 2) {
        put_head(stream, "known", "262144", false);
        put_body(stream, KIT_BODY_MAX - 1, false);
        flush();
    }
    usleep(300000); /* three sweeps */
    for (uint32_t stream = 1; stream <= 5; stream += 2) {
        put_body(stream, 1, true);
        flush();
        answer_is(stream, "key known body 262144 right");
    }
    end();
}

static void test_refused_before_it_comes(void **state)
{
    (void)state;
    begin((struct listener_options){.known_bytes_max = 100000});
    put_head(1, "known", "262145", false);
    put_head(3, "known", "200000", false);
    flush();
    for (uint32_t stream = 1; stream <= 3; stream += 2) {
        do
            next_frame(stream);
        while (frame.type != H2_DATA);
        frame.payload[frame.length] = '\0';
        assert_non_null(
            strstr((const char *)frame.payload, stream == 1 ? "request_too_large" : "server_busy"));
    }
    assert_int_equal(kit_starts, 0);
    end();
}

/* Nine tenants fill the share with uploads that do not end, and what one may not have is refused as
 * its own doing. For a tenth the youngest upload of the one that holds the most gives way. All are
 * on one connection, as of a proxy, and it goes on. */
static void test_the_richest_gives_way(void **state)
{
    (void)state;
    enum { TENANTS = 9, EACH = 5 };
    uint32_t stream = 1;
    char key[] = "tenant-a";
    begin((struct listener_options){0});
    for (int tenant = 0; tenant < TENANTS; tenant++, key[7]++) {
        for (int i = 0; i < EACH; i++, stream += 2) {
            put_head(stream, key, "262144", false);
            put_body(stream, 10, false);
        }
    }
    flush();
    for (uint32_t expected = 1 + 2 * (EACH - 1);; expected = 1 + 2 * (EACH - 2)) {
        do
            next_frame(expected);
        while (frame.type != H2_DATA);
        frame.payload[frame.length] = '\0';
        assert_non_null(strstr((const char *)frame.payload, "memory_share_used"));
        if (expected != 1 + 2 * (EACH - 1))
            break;
        assert_int_equal(kit_starts, 0);
        put_head(stream, "tenant-z", "262144", false);
        put_body(stream, KIT_BODY_MAX, true);
        flush();
    }
    answer_is(stream, "key tenant-z body 262144 right");
    put_body(1, KIT_BODY_MAX - 10, true);
    flush();
    answer_is(1, "key tenant-a body 262144 right");
    end();
}

/* A proxy's connection: an upload that is too slow, of whomever, is ended alone; so are bodies of
 * nobody known that are too much. The upload of somebody known beside them comes whole. */
static void test_others_streams_go_on(void **state)
{
    (void)state;
    begin((struct listener_options){.arrival_ms_max = 3000});
    put_head(1, "known", "100", false);
    flush();
    http_kit_wait(&kit_claims, 1);
    usleep(2000000); /* so much younger is stream 3 */
    put_head(3, "known", "100000", false);
    for (uint32_t stream = 5; stream <= 11; stream += 2) {
        put_head(stream, "maybe", NULL, false);
        put_body(stream, KIT_BODY_MAX - 1, false);
    }
    flush();
    for (uint32_t stream = 5; stream != 0; stream = stream == 5 ? 1 : 0) {
        do
            next_frame(stream);
        while (frame.type != H2_DATA);
        frame.payload[frame.length] = '\0';
        assert_non_null(
            strstr((const char *)frame.payload, stream == 5 ? "server_busy" : "request_timeout"));
    }
    put_body(3, 100000, true);
    flush();
    answer_is(3, "key known body 100000 right");
    end();
}

/* A hundred streams of one byte hold far more than they sent, and that counts. */
static void test_streams_count_by_what_they_hold(void **state)
{
    (void)state;
    begin((struct listener_options){.unfinished_bytes_max = 512 * 1024});
    kit_proved = 0;
    for (uint32_t i = 0; i < 100; i++) {
        put_head(1 + 2 * i, "maybe", NULL, false);
        put_body(1 + 2 * i, 1, false);
    }
    flush();
    http_kit_wait_connections(&kit_server, 0, 0);
    assert_int_equal(kit_starts, 0);
    end();
}

static void test_unproved_becomes_known(void **state)
{
    (void)state;
    begin((struct listener_options){.unfinished_bytes_max = 1024 * 1024,
                                    .unfinished_address_bytes_max = 128 * 1024});
    put_head(1, "maybe", NULL, false);
    flush();
    http_kit_wait(&kit_claims, 1);
    kit_proved = 1;
    put_body(1, 200000, true);
    flush();
    answer_is(1, "key maybe body 200000 right");
    end();
}

static _Atomic int is_held;

static void hold_loop(void *context)
{
    (void)context;
    while (is_held)
        usleep(1000);
}

/* A server that comes late to a trusted socket reads much at once, and its buffers grow for that.
 * What they hold afterwards is the beginning of a frame, and no more is booked to the address. */
static void test_one_large_read_is_no_heap(void **state)
{
    (void)state;
    enum { LATER = 5000 };
    begin((struct listener_options){.unfinished_bytes_max = 1024 * 1024,
                                    .unfinished_address_bytes_max = 64 * 1024});
    put_head(1, "known", "262144", false);
    flush();
    http_kit_wait(&kit_claims, 1);
    is_held = 1;
    loop_post(kit_server.loop, hold_loop, NULL);
    put_body(1, KIT_BODY_MAX, true);
    http_kit_tls_send(ssl, out.bytes, out.length - LATER);
    is_held = 0;
    http_kit_count(&kit_server); /* it has had a turn */
    http_kit_tls_send(ssl, out.bytes + out.length - LATER, LATER);
    buffer_clear(&out);
    answer_is(1, "key known body 262144 right");
    end();
}

/* The connection is ended with a GOAWAY that says ENHANCE_YOUR_CALM. */
static void ends_calm(void)
{
    flush();
    do
        assert_true(http_kit_h2_read(ssl, &frame));
    while (frame.type != H2_GOAWAY);
    assert_memory_equal(frame.payload + 4, "\0\0\0\x0b", 4);
    end();
}

/* A head that goes on and on is no head. Its one field has a value of a megabyte. */
static void test_head_block_without_end(void **state)
{
    (void)state;
    begin((struct listener_options){0});
    http_kit_h2_frame(&out, H2_HEADERS, H2_END_STREAM, 1, "\x04\x7f\x81\x80\x40", 5);
    for (int i = 0; i < 5; i++)
        http_kit_h2_frame(&out, H2_CONTINUATION, 0, 1, kit_piece, sizeof(kit_piece));
    ends_calm();
}

/* A head with so many fields of one byte behind its first five. */
static void put_many_fields(uint32_t stream, uint32_t more, uint8_t flags)
{
    struct buffer block;
    buffer_init(&block, 65536);
    http_kit_h2_field(&block, ":method", "POST");
    http_kit_h2_field(&block, ":scheme", "https");
    http_kit_h2_field(&block, ":authority", "localhost");
    http_kit_h2_field(&block, ":path", "/");
    put_remembered_key(&block);
    for (uint32_t i = 0; i < more; i++)
        buffer_append_char(&block, (char)0x90); /* accept-encoding: gzip, deflate */
    http_kit_h2_frame(&out, H2_HEADERS, flags, stream, block.bytes, block.length);
    buffer_deinit(&block);
}

/* As many fields as are allowed are taken; one more ends the connection, also when the head goes on
 * in another frame, and when it is the trailers of a dropped body. */
static void test_heads_with_too_many_fields(void **state)
{
    (void)state;
    static uint8_t many_fields[LIMIT_H2_FIELDS + 1];
    const uint8_t one = 0x90;
    begin((struct listener_options){0});
    put_many_fields(1, LIMIT_H2_FIELDS - 5, H2_END_HEADERS | H2_END_STREAM);
    flush();
    answer_is(1, "key known body 0 right");
    put_many_fields(3, LIMIT_H2_FIELDS - 4, H2_END_HEADERS | H2_END_STREAM);
    ends_calm();

    begin((struct listener_options){0});
    put_many_fields(1, LIMIT_H2_FIELDS - 5, H2_END_STREAM);
    http_kit_h2_frame(&out, H2_CONTINUATION, H2_END_HEADERS, 1, &one, 1);
    ends_calm();

    begin((struct listener_options){0});
    put_head(1, NULL, NULL, false);
    flush();
    answer_is(1, "key  body 0 right");
    next_frame(1); /* while a write is under way, libh2o does not say why it ends */
    assert_int_equal(frame.type, H2_RST_STREAM);
    memset(many_fields, one, sizeof many_fields);
    http_kit_h2_frame(&out, H2_HEADERS, H2_END_HEADERS | H2_END_STREAM, 1, many_fields,
                      sizeof many_fields);
    ends_calm();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_are_answered_at_once),
        cmocka_unit_test(test_a_reset_before_the_answers_are_written),
        cmocka_unit_test(test_trailers_of_strangers_are_dropped),
        cmocka_unit_test(test_trailers_without_end),
        cmocka_unit_test(test_dropped_bodies_give_the_window_back),
        cmocka_unit_test(test_known_bodies_come_whole),
        cmocka_unit_test(test_known_bodies_are_no_heap),
        cmocka_unit_test(test_refused_before_it_comes),
        cmocka_unit_test(test_the_richest_gives_way),
        cmocka_unit_test(test_others_streams_go_on),
        cmocka_unit_test(test_streams_count_by_what_they_hold),
        cmocka_unit_test(test_unproved_becomes_known),
        cmocka_unit_test(test_one_large_read_is_no_heap),
        cmocka_unit_test(test_head_block_without_end),
        cmocka_unit_test(test_heads_with_too_many_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
