/* request: what handlers see over real sockets: bodies, streams, back-pressure, clients leaving. */
#include "heap_kit.h"
#include "http_kit_tls.h"

#include "config/base/hash.h"
#include "config/base/limits.h"
#include "config/base/mem.h"
#include "gateway/http/request_h2o.h"

enum { READ_BYTES = 1 << 20, BODY_MAX = 1024 };

static char answer[READ_BYTES];
static _Atomic int gone_early;
static _Atomic int gone_late;
static _Atomic int half_closes;
static _Atomic int drains;
static _Atomic int starts;
static struct http_request *_Atomic held; /* the last request of /hold and the like */

static void reset(void)
{
    gone_early = gone_late = half_closes = drains = starts = 0;
    held = NULL;
}

static void on_gone(void *context, bool is_early)
{
    (void)context;
    atomic_fetch_add(is_early ? &gone_early : &gone_late, 1);
}

static void answer_echo(struct http_request *request)
{
    struct buffer out;
    buffer_init(&out, READ_BYTES);
    buffer_append_slice(&out, http_method(request));
    buffer_append_char(&out, '|');
    buffer_append_slice(&out, http_path(request));
    buffer_append_char(&out, '|');
    buffer_append_slice(&out, http_query(request));
    buffer_append_char(&out, '|');
    buffer_printf(&out, "%zu", http_header_count(request, "x-test"));
    buffer_append_slice(&out, http_header_get(request, "x-test"));
    buffer_append_char(&out, '|');
    buffer_append_slice(&out, http_body(request));
    buffer_append_text(&out, "|end");
    http_respond_json(request, 200, buffer_slice(&out));
    buffer_deinit(&out);
}

/* A stream of STREAM_PIECES pieces that obeys back-pressure. */
enum { STREAM_PIECE = LIMIT_STREAM_PENDING_BYTES / 4, STREAM_PIECES = (20 << 20) / STREAM_PIECE };
enum { CHUNK_FRAME_BYTES = 8 };
static _Atomic int stream_written;
static _Atomic size_t stream_pending_max;
static char stream_piece[STREAM_PIECE];

static void stream_fill(struct http_request *request)
{
    while (stream_written < STREAM_PIECES &&
           http_stream_pending(request) + STREAM_PIECE <= LIMIT_STREAM_PENDING_BYTES) {
        memset(stream_piece, 'a' + stream_written % 26, STREAM_PIECE);
        http_stream_write(request, (struct slice){stream_piece, STREAM_PIECE});
        stream_written++;
        if (http_stream_pending(request) > stream_pending_max)
            stream_pending_max = http_stream_pending(request);
    }
    if (stream_written == STREAM_PIECES)
        http_stream_end(request);
}

static void on_drained(void *context)
{
    drains++;
    if (stream_written < STREAM_PIECES)
        stream_fill(context);
}

static void on_drained_end(void *context)
{
    http_stream_end(context); /* over HTTP/1.0 the request is gone when this returns */
}

static void on_half_closed(void *context)
{
    half_closes++;
    struct http_request *request = context;
    http_stream_write(request, SLICE("final"));
    http_stream_end(request);
}

enum { GIVEN_BYTES = 8 << 20, LARGE_BYTES = 1 << 20 };
static _Atomic uint64_t taken_sum;

static uint64_t piece_sum(const char *bytes, size_t length)
{
    return hash_bytes(&(struct hash_key){1, 2}, bytes, length);
}

/* Bodies given back while their request runs, an answer taken over. */
static bool handle_memory(struct http_request *request, struct slice path)
{
    if (slice_is(path, "/drop")) {
        http_body_drop(request);
        held = request;
    } else if (slice_is(path, "/take")) {
        struct buffer bytes;
        assert_int_equal(http_body_take(request, &bytes), STATUS_OK);
        taken_sum = piece_sum(bytes.bytes, bytes.length);
        buffer_deinit(&bytes);
        held = request;
    } else if (slice_is(path, "/give")) {
        struct buffer out;
        buffer_init(&out, GIVEN_BYTES);
        for (size_t i = 0; i < GIVEN_BYTES / sizeof(uint32_t); i++)
            buffer_append(&out, &(uint32_t){(uint32_t)i}, sizeof(uint32_t));
        http_respond_take(request, 200, NULL, 0, &out);
        assert_null(out.bytes);
    } else {
        return false;
    }
    return true;
}

static void handle(struct http_request *request, void *context)
{
    (void)context;
    starts++;
    http_on_gone(request, on_gone, NULL);
    struct slice path = http_path(request);
    struct http_header type = {"content-type", SLICE("text/event-stream")};
    if (slice_is(path, "/hold")) {
        held = request;
    } else if (slice_is(path, "/stream")) {
        stream_written = 0;
        stream_pending_max = 0;
        http_stream_begin(request, 200, &type, 1, on_drained, request);
        stream_fill(request);
    } else if (slice_is(path, "/half")) {
        http_on_half_close(request, on_half_closed, request);
        http_stream_begin(request, 200, &type, 1, NULL, NULL);
        http_stream_write(request, SLICE("first,"));
    } else if (slice_is(path, "/begin")) {
        http_stream_begin(request, 200, &type, 1, NULL, NULL);
        http_stream_write(request, SLICE("begun"));
        held = request;
    } else if (slice_is(path, "/lost")) {
        http_stream_begin(request, 200, &type, 1, on_drained, request);
        http_stream_write(request, SLICE("words"));
        request_lose(request);
    } else if (slice_is(path, "/abort")) {
        http_stream_begin(request, 200, &type, 1, NULL, NULL);
        http_stream_write(request, SLICE("some"));
        http_stream_abort(request);
        http_stream_write(request, SLICE("nothing"));
        http_stream_abort(request);
    } else if (slice_is(path, "/endless")) {
        static char piece[LIMIT_ENGINE_FRAME_BYTES];
        memset(piece, 'e', sizeof(piece));
        http_stream_begin(request, 200, &type, 1, NULL, NULL);
        for (int i = 0; i < 4 * LIMIT_CHOICES; i++)
            http_stream_write(request, (struct slice){piece, sizeof(piece)});
        http_stream_end(request);
    } else if (slice_is(path, "/ended")) { /* what is being sent is not taken when it ends */
        static char block[8 * 1024 * 1024];
        http_stream_begin(request, 200, NULL, 0, NULL, NULL);
        http_stream_write(request, (struct slice){block, sizeof block});
        http_stream_end(request);
    } else if (slice_is(path, "/large")) {
        static char large[8 * 1024 * 1024];
        http_respond(request, 200, NULL, 0, (struct slice){large, sizeof(large)});
    } else if (handle_memory(request, path)) {
        return;
    } else if (slice_is(path, "/later")) {
        http_stream_begin(request, 200, &type, 1, on_drained_end, request);
        http_stream_write(request, SLICE("words"));
    } else if (slice_is(path, "/empty")) {
        http_stream_begin(request, 200, &type, 1, NULL, NULL);
        http_stream_end(request);
    } else if (slice_is(path, "/none")) {
        http_respond(request, 204, NULL, 0, (struct slice){0});
    } else {
        answer_echo(request);
    }
}

static const struct listener_options options = {
    .handler = handle, .makes_request_ids = true, .body_bytes_max = BODY_MAX};

static void start(struct http_kit *kit, bool is_unix)
{
    reset();
    *kit = (struct http_kit){0};
    http_kit_start(kit, is_unix, options);
}

static void test_keep_alive(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, false);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "POST /a/b?c=d HTTP/1.1\r\nHost: x\r\nX-Test: 7\r\n"
                           "Content-Length: 5\r\n\r\nhello");
    http_kit_read(fd, answer, sizeof(answer), "|end");
    assert_non_null(strstr(answer, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(answer, "POST|/a/b|c=d|17|hello|end"));
    assert_non_null(strstr(answer, "x-request-id: req_"));
    assert_null(strstr(answer, "Server:"));
    http_kit_send_text(fd, "GET /second HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_read(fd, answer, sizeof(answer), "|end");
    assert_non_null(strstr(answer, "GET|/second||0||end"));
    http_kit_send_text(fd, "GET /none HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_read(fd, answer, sizeof(answer), "\r\n\r\n");
    assert_non_null(strstr(answer, "HTTP/1.1 204 No Content\r\n"));
    http_kit_send_text(fd, "HEAD /h HTTP/1.1\r\nHost: x\r\n\r\nGET /x HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_read(fd, answer, sizeof(answer), "|end");
    assert_null(strstr(answer, "HEAD|")); /* an answer to HEAD has no body */
    http_kit_wait(&gone_late, 5);
    assert_int_equal(gone_early, 0);
    close(fd);
    http_kit_stop(&kit);
}

/* Requests behind each other in one write, with and without bodies, answered in order; the watch
 * reads the later ones into the buffer while the first runs. */
static void test_pipelining(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, false);
    int fd = http_kit_connect(&kit);
    struct buffer out;
    buffer_init(&out, READ_BYTES);
    for (int i = 0; i < 200; i++) {
        if (i % 2 == 0)
            buffer_printf(&out, "GET /g%d HTTP/1.1\r\nHost: x\r\n\r\n", i);
        else
            buffer_printf(&out, "POST /p%d HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", i);
    }
    http_kit_send(fd, out.bytes, out.length);
    char last[32];
    snprintf(last, sizeof(last), "/p%d||0|abc|end", 199);
    http_kit_read(fd, answer, sizeof(answer), last);
    const char *at = answer;
    for (int i = 0; i < 200; i++) {
        char path[64];
        snprintf(path, sizeof(path), "%s|/%c%d||0|%s|end", i % 2 == 0 ? "GET" : "POST", "gp"[i % 2],
                 i, i % 2 == 0 ? "" : "abc");
        at = strstr(at, path);
        if (at == NULL)
            fail_msg("request %d was not answered in its turn", i);
    }
    buffer_deinit(&out);
    close(fd);
    http_kit_stop(&kit);
}

static void post_answer_held(void *context)
{
    (void)context;
    answer_echo(held);
}

/* Requests that arrive whole or in part while one runs wait in the connection's input, which the
 * running one has left to them; its own body stays what it was. */
static void test_pipelined_while_running(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, false);
    int fd = http_kit_connect(&kit);
    for (int round = 0; round < 3; round++) {
        int before = starts;
        http_kit_send_text(fd, "POST /hold?q HTTP/1.1\r\nHost: x\r\nX-Test: 9\r\n"
                               "Content-Length: 5\r\n\r\nhello");
        http_kit_wait(&starts, before + 1);
        http_kit_send_text(fd, "POST /next HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nwo");
        usleep(20000); /* the watch has read it */
        if (round > 0)
            http_kit_send_text(fd, "rd");
        usleep((useconds_t)round * 10000);
        loop_post(kit.loop, post_answer_held, NULL);
        http_kit_read(fd, answer, sizeof(answer), round > 0 ? "|/next||0|word|end" : "|end");
        assert_non_null(strstr(answer, "POST|/hold|q|19|hello|end"));
        if (round == 0) {
            http_kit_send_text(fd, "rd");
            http_kit_read(fd, answer, sizeof(answer), "|/next||0|word|end");
        }
    }
    http_kit_wait(&gone_late, 6);
    close(fd);
    http_kit_stop(&kit);
}

static const struct listener_options large_options = {
    .handler = handle, .makes_request_ids = true, .body_bytes_max = LARGE_BYTES};

static void fill_random(char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (char)(i * 31 + i / 256);
}

/* A large body is gone from the heap while its request runs; what is before and behind it on the
 * connection stays. `rest`: the start of a pipelined request, in the same write. */
static void drop_one(struct http_kit *kit, int fd, const char *path, const char *rest)
{
    static char body[LARGE_BYTES];
    char head[160];
    fill_random(body, sizeof body);
    snprintf(head, sizeof head,
             "POST %s?q HTTP/1.1\r\nHost: x\r\nX-Test: 9\r\nContent-Length: %zu\r\n\r\n", path,
             sizeof body);
    struct buffer out;
    buffer_init(&out, 2 * LARGE_BYTES);
    buffer_append_text(&out, head);
    buffer_append(&out, body, sizeof body);
    buffer_append_text(&out, rest);
    int before = starts;
    size_t heap_before = heap_kit_bytes();
    http_kit_send(fd, out.bytes, out.length);
    http_kit_wait(&starts, before + 1);
    (void)http_kit_count(kit); /* a turn of the loop: the handler has returned */
    assert_true(heap_kit_bytes() < heap_before + LARGE_BYTES / 4);
    http_kit_send_text(fd, rest[0] != '\0' ? " HTTP/1.1\r\nHost: x\r\n\r\n" : "");
    loop_post(kit->loop, post_answer_held, NULL);
    char want[64];
    snprintf(want, sizeof want, "POST|%s|q|19||end", path);
    http_kit_read(fd, answer, sizeof answer, rest[0] != '\0' ? "GET|/after||0||end" : want);
    assert_non_null(strstr(answer, want));
    buffer_deinit(&out);
    if (strcmp(path, "/take") == 0)
        assert_true(taken_sum == piece_sum(body, sizeof body));
}

static void test_a_body_given_back_early(void **state)
{
    (void)state;
    struct http_kit kit = {0};
    reset();
    http_kit_start(&kit, true, large_options);
    int fd = http_kit_connect(&kit);
    for (int i = 0; i < 3; i++) {
        drop_one(&kit, fd, "/drop", "");
        drop_one(&kit, fd, "/drop", "GET /after");
        drop_one(&kit, fd, "/take", "GET /after");
        drop_one(&kit, fd, "/take", "");
    }
    http_kit_send_text(fd, "POST /drop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi");
    http_kit_wait(&starts, 19);
    loop_post(kit.loop, post_answer_held, NULL);
    http_kit_read(fd, answer, sizeof answer, "POST|/drop||0|hi|end"); /* too small to be moved */
    close(fd);
    http_kit_stop(&kit);
}

static void tls_send_text(SSL *ssl, const char *text)
{
    http_kit_tls_send(ssl, text, strlen(text));
}

/* A whole answer is held once, whether its client reads it or not, and arrives as it was. */
static void test_an_answer_taken_over(void **state)
{
    (void)state;
    static char received[GIVEN_BYTES + 1024];
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    reset();
    struct http_kit kit = {.tls = tls.server};
    http_kit_start(&kit, false, options);
    SSL *ssl = http_kit_tls_connect(&tls, &kit, false);
    tls_send_text(ssl, "GET /g HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_tls_read(ssl, answer, sizeof answer, "|end");
    size_t before = heap_kit_bytes();
    tls_send_text(ssl, "GET /give HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_wait(&starts, 2);
    (void)http_kit_count(&kit);
    assert_in_range(heap_kit_bytes() - before, GIVEN_BYTES, GIVEN_BYTES + GIVEN_BYTES / 8);
    size_t total = 0;
    for (char *at = NULL; at == NULL || total < (size_t)(at - received) + GIVEN_BYTES;) {
        int got = SSL_read(ssl, received + total, (int)(sizeof received - total));
        assert_true(got > 0);
        total += (size_t)got;
        char *end = memmem(received, total, "\r\n\r\n", 4);
        at = end != NULL ? end + 4 : NULL;
    }
    const char *body = (const char *)memmem(received, 1024, "\r\n\r\n", 4) + 4;
    assert_non_null(memmem(received, 1024, ": 8388608\r\n", 11));
    for (uint32_t i = 0; i < GIVEN_BYTES / sizeof i; i++)
        assert_memory_equal(body + i * sizeof i, &i, sizeof i);
    /* The connection goes on, and another such answer is left unread by a client that leaves. */
    tls_send_text(ssl, "GET /give HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_wait(&starts, 3);
    close(SSL_get_fd(ssl));
    http_kit_wait(&gone_early, 1);
    http_kit_wait_connections(&kit, 0, 0);
    SSL_free(ssl);
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
}

/* What a stream that waits holds of the heap, TLS and request together; a body is held once. */
static void hold_streams(size_t body_bytes, size_t bytes_max)
{
    enum { STREAMS = 150 };
    static char body[65536];
    static SSL *streams[STREAMS];
    struct http_kit_tls tls;
    http_kit_tls_start(&tls);
    reset();
    struct http_kit kit = {.tls = tls.server};
    struct listener_options large = options;
    large.body_bytes_max = sizeof(body);
    http_kit_start(&kit, false, large);
    memset(body, 'b', sizeof(body));
    char head[128];
    snprintf(head, sizeof(head), "POST /begin HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
             body_bytes);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = http_kit_tls_connect(&tls, &kit, false);
        assert_non_null(streams[i]);
        http_kit_tls_send(streams[i], head, strlen(head));
        http_kit_tls_send(streams[i], body, body_bytes);
        http_kit_wait(&starts, i + 1);
        http_kit_tls_read(streams[i], answer, sizeof(answer), "begun\r\n");
    }
    size_t during = heap_kit_bytes();
    for (int i = 0; i < STREAMS; i++)
        close(SSL_get_fd(streams[i]));
    http_kit_wait(&gone_early, STREAMS);
    http_kit_wait_connections(&kit, 0, 0);
    size_t each = (during - heap_kit_bytes()) / STREAMS; /* the clients' share is still there */
    print_message("%zu bytes of body: %zu bytes a stream\n", body_bytes, each);
#ifdef HEAP_KIT_SANITIZED
    bytes_max += bytes_max / 4; /* its classes of sizes are up to a quarter apart */
#endif
    assert_in_range(each, body_bytes, bytes_max);
    for (int i = 0; i < STREAMS; i++)
        SSL_free(streams[i]);
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
}

static void test_heap_of_streams(void **state)
{
    (void)state;
    enum { EMPTY_MAX = 24 * 1024 };
    hold_streams(0, EMPTY_MAX);
    hold_streams(65536, EMPTY_MAX + 65536);
}

/* Nothing behind a chunked body is read as a request: its end is not beyond doubt. */
static void test_chunked_is_the_last(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, false);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
                           "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_read(fd, answer, sizeof(answer), NULL);
    assert_non_null(strstr(answer, "POST|/c||0|abc|end"));
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    assert_null(strstr(answer, "/smuggled"));
    close(fd);
    http_kit_stop(&kit);
}

static void refusal(struct http_kit *kit, const char *request, size_t length, const char *line,
                    const char *code)
{
    int started = starts;
    int fd = http_kit_connect(kit);
    http_kit_send(fd, request, length);
    shutdown(fd, SHUT_WR);
    http_kit_read(fd, answer, sizeof(answer), NULL);
    if (strncmp(answer, line, strlen(line)) != 0 || strstr(answer, code) == NULL)
        fail_msg("wanted %s with %s, got %s", line, code, answer);
    assert_int_equal(starts, started);
    close(fd);
}

/* Ends from inside a drained callback, and streams without a byte, in both versions. */
static void test_stream_ends(void **state)
{
    (void)state;
    const struct {
        const char *request;
        const char *tail;
    } rows[] = {
        {"GET /later HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
         "\r\n\r\n5\r\nwords\r\n0\r\n\r\n"},
        {"GET /later HTTP/1.0\r\n\r\n", "\r\n\r\nwords"},
        {"GET /empty HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "\r\n\r\n0\r\n\r\n"},
        {"GET /empty HTTP/1.0\r\n\r\n", "\r\n\r\n"},
    };
    struct http_kit kit;
    start(&kit, true);
    for (int i = 0; i < 4; i++) {
        int fd = http_kit_connect(&kit);
        http_kit_send_text(fd, rows[i].request);
        size_t length = http_kit_read(fd, answer, sizeof(answer), NULL);
        assert_true(length > strlen(rows[i].tail));
        assert_string_equal(answer + length - strlen(rows[i].tail), rows[i].tail);
        http_kit_wait(&gone_late, i + 1);
        close(fd);
    }
    assert_int_equal(gone_early, 0);
    http_kit_stop(&kit);
}

/* A client that asks first, as curl does before a large body. */
static void test_expect_continue(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, false);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
                           "Expect: 100-continue\r\n\r\n");
    http_kit_read(fd, answer, sizeof(answer), "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(starts, 0);
    http_kit_send_text(fd, "body");
    http_kit_read(fd, answer, sizeof(answer), "POST|/e||0|body|end");
    close(fd);
    refusal(&kit, "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: tea\r\n\r\nbody",
            strlen("POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: tea\r\n\r\nbody"),
            "HTTP/1.1 417 ", "\"expectation_failed\"");
    http_kit_stop(&kit);
}

static void test_stream_back_pressure(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, true);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
    usleep(100000); /* the server runs into the full socket */
    assert_true(stream_written < STREAM_PIECES);
    size_t total = 0;
    size_t letters = 0;
    char tail[6] = "";
    for (;;) {
        ssize_t got = recv(fd, answer, sizeof(answer), 0);
        assert_true(got > 0);
        for (ssize_t i = 0; i < got; i++)
            letters += answer[i] >= 'a' && answer[i] <= 'z';
        total += (size_t)got;
        for (ssize_t i = got < 5 ? 0 : got - 5; i < got; i++) {
            memmove(tail, tail + 1, 4);
            tail[4] = answer[i];
        }
        if (memcmp(tail, "0\r\n\r\n", 5) == 0)
            break;
    }
    assert_true(letters >= (size_t)STREAM_PIECE * STREAM_PIECES); /* and those of head and sizes */
    assert_true(total - (size_t)STREAM_PIECE * STREAM_PIECES < 16 * STREAM_PIECES);
    assert_true(drains > 0);
    assert_true(stream_pending_max <= LIMIT_STREAM_PENDING_BYTES + CHUNK_FRAME_BYTES);
    http_kit_wait(&gone_late, 1);
    close(fd);
    http_kit_stop(&kit);
}

/* The client leaves while nothing is being written: with a body, without one, in mid-stream. */
static void test_gone(void **state)
{
    (void)state;
    const char *requests[] = {
        "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
        "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /begin HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /hold HTTP/1.0\r\n\r\n",
        "GET /begin HTTP/1.0\r\n\r\n",
    };
    for (int is_unix = 0; is_unix < 2; is_unix++) {
        struct http_kit kit;
        start(&kit, is_unix);
        for (int i = 0; i < 5; i++) {
            int fd = http_kit_connect(&kit);
            http_kit_send_text(fd, requests[i]);
            http_kit_wait(&starts, i + 1);
            assert_int_equal(gone_early, i);
            if (i % 2 == 0)
                close(fd);
            else
                shutdown(fd, SHUT_WR); /* a client that half-closes counts as gone */
            http_kit_wait(&gone_early, i + 1);
            if (i % 2 != 0)
                close(fd);
        }
        http_kit_wait_connections(&kit, 0, 0);
        assert_int_equal(http_kit_count(&kit).requests, 0);
        assert_int_equal(gone_late, 0);
        http_kit_stop(&kit);
    }
}

/* The client leaves between a write and the word that it is done: as many clients of a busy server
 * do. Such a request once stayed for ever. */
static void test_gone_while_written(void **state)
{
    (void)state;
    for (int is_unix = 0; is_unix < 2; is_unix++) {
        struct http_kit kit;
        start(&kit, is_unix);
        for (int i = 0; i < 5; i++) {
            int fd = http_kit_connect(&kit);
            http_kit_send_text(fd, i % 2 == 0 ? "GET /lost HTTP/1.1\r\nHost: x\r\n\r\n"
                                              : "GET /lost HTTP/1.0\r\n\r\n");
            http_kit_wait(&gone_early, i + 1);
            http_kit_wait_connections(&kit, 0, 0);
            close(fd);
        }
        assert_int_equal(http_kit_count(&kit).requests, 0);
        assert_int_equal(gone_late, 0);
        http_kit_stop(&kit);
    }
}

/* With http_on_half_close the last words still reach a client that stopped sending. */
static void test_half_close(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, true);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n!");
    http_kit_read(fd, answer, sizeof(answer), "first,\r\n");
    shutdown(fd, SHUT_WR);
    http_kit_read(fd, answer, sizeof(answer), NULL);
    assert_non_null(strstr(answer, "final\r\n0\r\n\r\n"));
    assert_int_equal(half_closes, 1);
    http_kit_wait(&gone_late, 1);
    close(fd);
    /* A client that has really left: told as a half-close, and the write shows the truth. */
    fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n!");
    http_kit_read(fd, answer, sizeof(answer), "first,\r\n");
    close(fd);
    http_kit_wait(&half_closes, 2);
    for (int i = 0; i < 10000 && gone_early + gone_late < 2; i++)
        usleep(1000);
    assert_int_equal(gone_early + gone_late, 2);
    http_kit_stop(&kit);
}

static void test_abort(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, false);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "GET /abort HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_read(fd, answer, sizeof(answer), NULL);
    const char *some = strstr(answer, "4\r\nsome");
    assert_non_null(some);
    assert_null(strstr(some, "0\r\n\r\n"));
    close(fd);
    http_kit_stop(&kit);
}

/* A writer that never looks at what is pending gets its stream broken off, visibly. */
static void test_endless(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, true);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n");
    size_t total = 0;
    ssize_t got;
    char tail[8] = "";
    while ((got = recv(fd, answer, sizeof(answer), 0)) > 0) {
        total += (size_t)got;
        if (got >= 5)
            memcpy(tail, answer + got - 5, 5);
    }
    assert_int_equal(got, 0);
    assert_true(total >= (size_t)LIMIT_CHOICES * LIMIT_ENGINE_FRAME_BYTES);
    assert_true(total < (size_t)3 * LIMIT_CHOICES * LIMIT_ENGINE_FRAME_BYTES);
    assert_string_not_equal(tail, "0\r\n\r\n");
    close(fd);
    http_kit_stop(&kit);
}

/* A finished answer that nobody reads is given up after a while. */
static void test_unread(void **state)
{
    (void)state;
    reset();
    struct http_kit kit = {0};
    struct listener_options short_options = options;
    short_options.unread_ms_max = 100;
    http_kit_start(&kit, true, short_options);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_wait(&gone_late, 1);
    http_kit_wait_connections(&kit, 0, 0);
    close(fd);
    http_kit_stop(&kit);
}

/* So is one that ended while bytes before its end were on their way. */
static void test_unread_stream(void **state)
{
    (void)state;
    reset();
    struct http_kit kit = {0};
    struct listener_options short_options = options;
    short_options.unread_ms_max = 100;
    http_kit_start(&kit, true, short_options);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "GET /ended HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_wait(&gone_early, 1);
    http_kit_wait_connections(&kit, 0, 0);
    close(fd);
    http_kit_stop(&kit);
}

/* A client that pipelines without end while a request runs is not read without end. */
static void test_pipelined_flood(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, true);
    int fd = http_kit_connect(&kit);
    http_kit_send_text(fd, "GET /hold HTTP/1.1\r\nHost: x\r\n\r\n");
    http_kit_wait(&starts, 1);
    size_t sent = 0;
    char flood[4096];
    memset(flood, 'x', sizeof(flood));
    struct timeval limit = {.tv_usec = 200000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    for (;;) {
        ssize_t now = send(fd, flood, sizeof(flood), MSG_NOSIGNAL);
        if (now <= 0)
            break;
        sent += (size_t)now;
        assert_true(sent < 8 * 1024 * 1024);
    }
    assert_true(sent >= LIMIT_PIPELINED_BYTES);
    close(fd);
    http_kit_stop(&kit); /* nobody reads it any more: closing the listener ends it */
    assert_int_equal(gone_early, 1);
}

/* --- what never reaches a handler ------------------------------------------------------------ */

static void test_framing(void **state)
{
    (void)state;
    const char *requests[] = {
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 0\r\n\r\nabc",
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        "0\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"
        "0\r\n\r\n",
        "GET /a HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "GET /a HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
        "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\nabc",
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nabc",
        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };
    struct http_kit kit;
    start(&kit, false);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        refusal(&kit, requests[i], strlen(requests[i]), "HTTP/1.1 400 ",
                "\"type\":\"invalid_request_error\"");
    http_kit_stop(&kit);
}

static void test_body_limit(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, false);
    for (int is_chunked = 0; is_chunked < 2; is_chunked++) {
        for (int length = BODY_MAX; length <= BODY_MAX + 2; length++) {
            struct buffer out;
            buffer_init(&out, 1 << 16);
            if (is_chunked)
                buffer_printf(&out,
                              "POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "%x\r\n",
                              (unsigned)length);
            else
                buffer_printf(&out, "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n",
                              length);
            for (int i = 0; i < length; i++)
                buffer_append_char(&out, 'b');
            if (is_chunked)
                buffer_append_text(&out, "\r\n0\r\n\r\n");
            if (length > BODY_MAX) {
                refusal(&kit, out.bytes, out.length, "HTTP/1.1 413 ", "\"request_too_large\"");
                assert_non_null(strstr(answer, "x-request-id: req_"));
            } else {
                int fd = http_kit_connect(&kit);
                http_kit_send(fd, out.bytes, out.length);
                http_kit_read(fd, answer, sizeof(answer), "|end");
                close(fd);
            }
            buffer_deinit(&out);
        }
    }
    http_kit_stop(&kit);
}

static void test_head_limits(void **state)
{
    (void)state;
    struct http_kit kit;
    start(&kit, false);
    static const char begin[] = "GET /h HTTP/1.1\r\nHost: x\r\nX-Test: ";
    for (size_t length = LIMIT_HEAD_BYTES; length <= LIMIT_HEAD_BYTES + 1; length++) {
        struct buffer out;
        buffer_init(&out, 1 << 16);
        buffer_append_text(&out, begin);
        while (out.length < length - 4)
            buffer_append_char(&out, 'h');
        buffer_append_text(&out, "\r\n\r\n");
        assert_int_equal(out.length, length);
        if (length > LIMIT_HEAD_BYTES) {
            refusal(&kit, out.bytes, out.length, "HTTP/1.1 431 ", "\"head_too_large\"");
        } else {
            int fd = http_kit_connect(&kit);
            http_kit_send(fd, out.bytes, out.length);
            http_kit_read(fd, answer, sizeof(answer), "|end");
            close(fd);
        }
        buffer_deinit(&out);
    }
    for (size_t length = LIMIT_PATH_BYTES; length <= LIMIT_PATH_BYTES + 1; length++) {
        struct buffer out;
        buffer_init(&out, 1 << 16);
        buffer_append_text(&out, "GET /");
        while (out.length < length + 4)
            buffer_append_char(&out, 'p');
        buffer_append_text(&out, " HTTP/1.1\r\nHost: x\r\n\r\n");
        if (length > LIMIT_PATH_BYTES) {
            refusal(&kit, out.bytes, out.length, "HTTP/1.1 414 ", "\"path_too_long\"");
        } else {
            int fd = http_kit_connect(&kit);
            http_kit_send(fd, out.bytes, out.length);
            http_kit_read(fd, answer, sizeof(answer), "|end");
            close(fd);
        }
        buffer_deinit(&out);
    }
    http_kit_stop(&kit);
}

/* --- TLS and HTTP/2 -------------------------------------------------------------------------- */

struct h2_client {
    struct http_kit_tls tls;
    struct http_kit kit;
    SSL *ssl;
    struct buffer out;
};

static void h2_start_with(struct h2_client *client, const struct listener_options *with)
{
    reset();
    client->kit = (struct http_kit){0};
    http_kit_tls_start(&client->tls);
    client->kit.tls = client->tls.server;
    http_kit_start(&client->kit, false, *with);
    client->ssl = http_kit_tls_connect(&client->tls, &client->kit, true);
    assert_non_null(client->ssl);
    buffer_init(&client->out, READ_BYTES);
    http_kit_h2_preface(&client->out);
}

static void h2_start(struct h2_client *client)
{
    h2_start_with(client, &options);
}

static void h2_flush(struct h2_client *client)
{
    http_kit_tls_send(client->ssl, client->out.bytes, client->out.length);
    buffer_clear(&client->out);
}

static void h2_stop(struct h2_client *client)
{
    http_kit_tls_drop(client->ssl);
    buffer_deinit(&client->out);
    http_kit_stop(&client->kit);
    http_kit_tls_stop(&client->tls);
}

/* Reads frames until one of `type` on `stream` comes; its payload is left in *frame. */
static void h2_expect(struct h2_client *client, int type, uint32_t stream,
                      struct http_kit_h2_frame *frame)
{
    do {
        if (!http_kit_h2_read(client->ssl, frame))
            fail_msg("the connection ended before a frame of type %d came", type);
    } while (frame->type != type || frame->stream != stream);
}

static void test_tls_gone(void **state)
{
    (void)state;
    reset();
    struct http_kit_tls tls;
    struct http_kit kit = {0};
    http_kit_tls_start(&tls);
    kit.tls = tls.server;
    http_kit_start(&kit, false, options);
    SSL *ssl = http_kit_tls_connect(&tls, &kit, false);
    assert_non_null(ssl);
    const char *request = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
    http_kit_tls_send(ssl, request, strlen(request));
    http_kit_tls_read(ssl, answer, sizeof(answer), "POST|/a||0|hi|end");
    request = "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi";
    http_kit_tls_send(ssl, request, strlen(request));
    http_kit_wait(&starts, 2);
    http_kit_tls_drop(ssl);
    http_kit_wait(&gone_early, 1);
    http_kit_stop(&kit);
    http_kit_tls_stop(&tls);
}

static void test_h2(void **state)
{
    (void)state;
    static struct http_kit_h2_frame frame;
    struct h2_client client;
    h2_start(&client);
    http_kit_h2_request(&client.out, 1, "POST", "/two?q", "t", false);
    http_kit_h2_frame(&client.out, H2_DATA, H2_END_STREAM, 1, "body", 4);
    h2_flush(&client);
    h2_expect(&client, H2_DATA, 1, &frame);
    assert_memory_equal(frame.payload, "POST|/two|q|1t|body|end", frame.length);
    http_kit_wait(&gone_late, 1);
    /* An abort is a reset that the client sees. */
    http_kit_h2_request(&client.out, 3, "GET", "/abort", NULL, true);
    h2_flush(&client);
    h2_expect(&client, H2_DATA, 3, &frame);
    assert_int_equal(frame.flags & H2_END_STREAM, 0);
    h2_expect(&client, H2_RST_STREAM, 3, &frame);
    /* A reset before the answer reaches the handler. */
    http_kit_h2_request(&client.out, 5, "GET", "/hold", NULL, true);
    h2_flush(&client);
    http_kit_wait(&starts, 3);
    http_kit_h2_reset(&client.out, 5);
    h2_flush(&client);
    http_kit_wait(&gone_early, 1);
    /* And so does one in mid-stream, and the end of the connection. */
    http_kit_h2_request(&client.out, 7, "GET", "/begin", NULL, true);
    h2_flush(&client);
    h2_expect(&client, H2_DATA, 7, &frame);
    http_kit_h2_reset(&client.out, 7);
    h2_flush(&client);
    http_kit_wait(&gone_early, 2);
    http_kit_h2_request(&client.out, 9, "GET", "/hold", NULL, true);
    h2_flush(&client);
    http_kit_wait(&starts, 5);
    h2_stop(&client);
    assert_int_equal(gone_early, 3);
}

static void h2_send_large(struct h2_client *client, uint32_t stream, const char *path)
{
    enum { DATA_BYTES = 16384, BYTES = 3 * DATA_BYTES }; /* below a connection's first window */
    static char body[BYTES];
    fill_random(body, sizeof body);
    http_kit_h2_request(&client->out, stream, "POST", path, "t", false);
    for (size_t i = 0; i < BYTES; i += DATA_BYTES)
        http_kit_h2_frame(&client->out, H2_DATA, i + DATA_BYTES == BYTES ? H2_END_STREAM : 0,
                          stream, body + i, DATA_BYTES);
    taken_sum = 0;
    h2_flush(client);
}

/* The same over HTTP/2: bodies given back while their requests run, answers taken over. */
static void test_h2_memory(void **state)
{
    (void)state;
    static struct http_kit_h2_frame frame;
    struct h2_client client;
    h2_start_with(&client, &large_options);
    for (uint32_t i = 0; i < 4; i++) {
        bool is_taken = i % 2 == 1;
        uint32_t stream = 1 + 2 * i;
        int before = starts;
        h2_send_large(&client, stream, is_taken ? "/take" : "/drop");
        http_kit_wait(&starts, before + 1);
        (void)http_kit_count(&client.kit);
        loop_post(client.kit.loop, post_answer_held, NULL);
        h2_expect(&client, H2_DATA, stream, &frame);
        const char *want = is_taken ? "POST|/take||1t||end" : "POST|/drop||1t||end";
        assert_memory_equal(frame.payload, want, strlen(want));
        assert_true((taken_sum != 0) == is_taken);
    }
    size_t before = heap_kit_bytes();
    http_kit_h2_request(&client.out, 9, "GET", "/give", NULL, true);
    h2_flush(&client);
    http_kit_wait(&starts, 5);
    (void)http_kit_count(&client.kit);
    assert_in_range(heap_kit_bytes() - before, GIVEN_BYTES, GIVEN_BYTES + GIVEN_BYTES / 8);
    h2_expect(&client, H2_DATA, 9, &frame);
    assert_memory_equal(frame.payload + 4, &(uint32_t){1}, 4);
    http_kit_h2_reset(&client.out, 9);
    h2_flush(&client);
    http_kit_wait(&gone_early, 1);
    h2_stop(&client);
}

static void test_h2_head_limit(void **state)
{
    (void)state;
    static struct http_kit_h2_frame frame;
    struct h2_client client;
    h2_start(&client);
    static char value[LIMIT_HEAD_BYTES + 1];
    /* What the check counts: method, path, authority, and the header's name, value and 4. */
    size_t rest = strlen("GET") + strlen("/h") + strlen("localhost") + strlen("x-test") + 4;
    for (uint32_t i = 0; i < 2; i++) {
        memset(value, 'v', LIMIT_HEAD_BYTES - rest + i);
        value[LIMIT_HEAD_BYTES - rest + i] = '\0';
        http_kit_h2_request(&client.out, 1 + 2 * i, "GET", "/h", value, true);
        h2_flush(&client);
        h2_expect(&client, H2_DATA, 1 + 2 * i, &frame);
        frame.payload[frame.length] = '\0';
        const char *text = (const char *)frame.payload;
        if (i == 0)
            assert_non_null(strstr(text, "GET|/h"));
        else
            assert_non_null(strstr(text, "head_too_large"));
    }
    assert_int_equal(starts, 1);
    h2_stop(&client);
}

/* 100 streams opened and reset in one write: no handler runs, and the connection is closed. */
static void test_h2_rapid_reset(void **state)
{
    (void)state;
    static struct http_kit_h2_frame frame;
    struct h2_client client;
    h2_start(&client);
    for (uint32_t i = 0; i < LIMIT_STREAMS_JUDGED + 20; i++) {
        http_kit_h2_request(&client.out, 1 + 2 * i, "GET", "/hold", NULL, true);
        http_kit_h2_reset(&client.out, 1 + 2 * i);
    }
    h2_flush(&client);
    while (http_kit_h2_read(client.ssl, &frame))
        continue;
    assert_int_equal(starts, 0);
    assert_int_equal(gone_early, 0); /* nobody was told of what never began */
    h2_stop(&client);
}

/* Streams reset one by one after they began: closed too, after the hundredth, and not before. */
static void test_h2_slow_reset(void **state)
{
    (void)state;
    static struct http_kit_h2_frame frame;
    struct h2_client client;
    h2_start(&client);
    for (int i = 0; i < LIMIT_STREAMS_JUDGED; i++) {
        http_kit_h2_request(&client.out, 1 + 2 * (uint32_t)i, "GET", "/hold", NULL, true);
        h2_flush(&client);
        http_kit_wait(&starts, i + 1);
        http_kit_h2_reset(&client.out, 1 + 2 * (uint32_t)i);
        h2_flush(&client);
        http_kit_wait(&gone_early, i + 1);
    }
    while (http_kit_h2_read(client.ssl, &frame))
        continue;
    assert_int_equal(gone_early, LIMIT_STREAMS_JUDGED);
    h2_stop(&client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_pipelining),
        cmocka_unit_test(test_pipelined_while_running),
        cmocka_unit_test(test_a_body_given_back_early),
        cmocka_unit_test(test_an_answer_taken_over),
        cmocka_unit_test(test_h2_memory),
        cmocka_unit_test(test_heap_of_streams),
        cmocka_unit_test(test_chunked_is_the_last),
        cmocka_unit_test(test_stream_ends),
        cmocka_unit_test(test_expect_continue),
        cmocka_unit_test(test_stream_back_pressure),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_gone_while_written),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_unread),
        cmocka_unit_test(test_unread_stream),
        cmocka_unit_test(test_endless),
        cmocka_unit_test(test_pipelined_flood),
        cmocka_unit_test(test_framing),
        cmocka_unit_test(test_body_limit),
        cmocka_unit_test(test_head_limits),
        cmocka_unit_test(test_tls_gone),
        cmocka_unit_test(test_h2),
        cmocka_unit_test(test_h2_head_limit),
        cmocka_unit_test(test_h2_rapid_reset),
        cmocka_unit_test(test_h2_slow_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
