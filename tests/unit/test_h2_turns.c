/* h2_turns: one turn of the loop reads a bounded amount of HTTP/2, in which each connection has its
 * part; what was held is answered by the next turns, whole and in order, or ends with its
 * connection. */
#include "config/base/limits_door.h"
#include "http_kit_tls.h"

enum {
    FLOODERS = 12,
    HEADS = 90,       /* of one connection: libh2o takes 100 at once */
    HEAD_COST = 8 + 1 /* of the least head */
};

static struct http_kit_tls tls;
static struct http_kit kit;
static struct buffer out;
static SSL *ssl[FLOODERS];
/* While it is STOPPED the loop stands still, and what is sent waits. RESTS: a moment more. */
static _Atomic enum { GOES, STOPPED, RESTS } pace;
static _Atomic int starts;             /* requests that the handler saw */
static _Atomic int starts_before_last; /* the same, when it saw the path "/last" */

static void stand_still(void *context)
{
    (void)context;
    while (pace == STOPPED)
        usleep(1000);
    if (pace == RESTS)
        usleep(100000);
}

static void stop_loop(void)
{
    pace = STOPPED;
    loop_post(kit.loop, stand_still, NULL);
}

static void handle(struct http_request *request, void *context)
{
    (void)context;
    if (slice_is(http_path(request), "/last"))
        starts_before_last = starts;
    starts++;
    http_respond(request, 200, NULL, 0, http_header_get(request, "x-test"));
}

static void begin(void)
{
    starts = 0;
    starts_before_last = -1;
    buffer_init(&out, 1 << 20);
    http_kit_tls_start(&tls);
    kit = (struct http_kit){.tls = tls.server};
    http_kit_start(&kit, false, (struct listener_options){.handler = handle});
}

static void end(void)
{
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
    buffer_deinit(&out);
}

static SSL *connect_h2(void)
{
    SSL *made = http_kit_tls_connect(&tls, &kit, true);
    assert_non_null(made);
    http_kit_h2_preface(&out);
    http_kit_tls_send(made, out.bytes, out.length);
    buffer_clear(&out);
    return made;
}

static void send_heads(SSL *to, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%u", i);
        http_kit_h2_request(&out, 1 + 2 * i, "GET", "/", number, true);
    }
    http_kit_tls_send(to, out.bytes, out.length);
    buffer_clear(&out);
}

/* Each stream is answered once, with its own text. */
static void heads_are_answered(SSL *from, uint32_t count)
{
    static struct http_kit_h2_frame frame;
    uint32_t answered = 0;
    while (answered < count) {
        assert_true(http_kit_h2_read(from, &frame));
        if (frame.type != H2_DATA || frame.length == 0)
            continue;
        char number[16];
        snprintf(number, sizeof number, "%u", (frame.stream - 1) / 2);
        assert_int_equal(frame.length, strlen(number));
        assert_memory_equal(frame.payload, number, frame.length);
        answered++;
    }
}

/* The heads of many connections come at once, and those of one more behind them and in front of
 * them: libh2o serves the last one first. Neither waits for all others. */
static void test_one_head_passes_many(void **state)
{
    (void)state;
    for (int round = 0; round < 2; round++) {
        begin();
        for (uint32_t i = 0; i < FLOODERS; i++)
            ssl[i] = connect_h2();
        SSL *other = connect_h2();
        http_kit_count(&kit); /* it has read the prefaces */
        stop_loop();
        for (uint32_t i = 0; i < FLOODERS && round == 1; i++)
            send_heads(ssl[i], HEADS);
        http_kit_h2_request(&out, 1, "GET", "/last", "last", true);
        http_kit_tls_send(other, out.bytes, out.length);
        buffer_clear(&out);
        for (uint32_t i = 0; i < FLOODERS && round == 0; i++)
            send_heads(ssl[i], HEADS);
        pace = GOES;
        for (uint32_t i = 0; i < FLOODERS; i++)
            heads_are_answered(ssl[i], HEADS);
        http_kit_wait(&starts, FLOODERS * HEADS + 1);
        /* It may have been held for one turn. */
        assert_in_range(starts_before_last, 0,
                        2 * (LIMIT_H2_TURN_WORK + LIMIT_H2_FIELDS) / HEAD_COST);
        assert_true(2 * (LIMIT_H2_TURN_WORK + LIMIT_H2_FIELDS) / HEAD_COST < FLOODERS * HEADS / 2);
        for (uint32_t i = 0; i < FLOODERS; i++)
            http_kit_tls_drop(ssl[i]);
        http_kit_tls_drop(other);
        end();
    }
}

/* Frames without a head count too; bodies and frames of other streams keep their order. */
static void test_held_frames_keep_their_order(void **state)
{
    (void)state;
    static struct http_kit_h2_frame frame;
    enum { PING = 6, PING_ACK = 1, PINGS = 3 * LIMIT_H2_TURN_CONNECTION_WORK };
    begin();
    ssl[0] = connect_h2();
    for (uint32_t i = 0; i < PINGS; i++) {
        const uint8_t number[8] = {(uint8_t)(i >> 8), (uint8_t)i};
        http_kit_h2_frame(&out, PING, 0, 0, number, sizeof number);
    }
    send_heads(ssl[0], 1);
    for (uint32_t i = 0; i < PINGS;) {
        assert_true(http_kit_h2_read(ssl[0], &frame));
        if (frame.type != PING)
            continue;
        assert_int_equal(frame.flags, PING_ACK);
        assert_int_equal(frame.payload[0] << 8 | frame.payload[1], i);
        i++;
    }
    heads_are_answered(ssl[0], 1);
    http_kit_tls_drop(ssl[0]);
    end();
}

/* Connections that are held are reset by their clients: nothing of them is used afterwards, and the
 * loop goes on. */
static void test_held_connections_are_reset(void **state)
{
    (void)state;
    const struct linger at_once = {.l_onoff = 1};
    begin();
    for (uint32_t i = 0; i < FLOODERS; i++)
        ssl[i] = connect_h2();
    http_kit_count(&kit);
    stop_loop();
    for (uint32_t i = 0; i < FLOODERS; i++) {
        send_heads(ssl[i], HEADS);
        if (i % 2 == 0)
            assert_int_equal(
                setsockopt(SSL_get_fd(ssl[i]), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        http_kit_tls_drop(ssl[i]);
    }
    pace = GOES;
    ssl[0] = connect_h2();
    send_heads(ssl[0], HEADS);
    heads_are_answered(ssl[0], HEADS);
    http_kit_tls_drop(ssl[0]);
    http_kit_wait_connections(&kit, 0, 0);
    end();
}

/* The listener closes while connections have sent more than it reads in a turn. */
static void test_the_listener_closes(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < FLOODERS; i++)
        ssl[i] = connect_h2();
    http_kit_count(&kit);
    stop_loop();
    for (uint32_t i = 0; i < FLOODERS; i++)
        send_heads(ssl[i], HEADS);
    pace = RESTS; /* it is told to end before it reads */
    end();
    for (uint32_t i = 0; i < FLOODERS; i++)
        http_kit_tls_drop(ssl[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_head_passes_many),
        cmocka_unit_test(test_held_frames_keep_their_order),
        cmocka_unit_test(test_held_connections_are_reset),
        cmocka_unit_test(test_the_listener_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
