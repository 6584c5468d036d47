/* http1_client: against a scripted server on a thread of its own, over real sockets. */
#include "http_kit.h"

#include <fcntl.h>

#include "config/base/limits.h"
#include "config/base/slice.h"
#include "gateway/upstream/http1_client.h"

/* --- a server that does what a script says -------------------------------------------------- */

enum step_kind {
    STEP_ACCEPT,
    STEP_READ,     /* until the blank line, and `number` bytes of body */
    STEP_SEND,     /* text */
    STEP_SLEEP,    /* number of ms */
    STEP_CLOSE,    /* the connection */
    STEP_WAIT_EOF, /* the client shut down its side or closed */
    STEP_END
};
struct step {
    enum step_kind kind;
    const char *text;
    int number;
};

struct server {
    int listening;
    char path[64];
    const struct step *steps;
    pthread_t thread;
    char received[1 << 20];
    size_t received_bytes;
    _Atomic int accepted;
    _Atomic int requests;
    _Atomic int ends_seen;
};

static void server_read(struct server *server, int fd, int body_bytes)
{
    server->received_bytes = 0;
    for (;;) {
        char *at = server->received + server->received_bytes;
        ssize_t got = recv(fd, at, sizeof(server->received) - 1 - server->received_bytes, 0);
        if (got <= 0)
            return;
        server->received_bytes += (size_t)got;
        server->received[server->received_bytes] = '\0';
        const char *blank = strstr(server->received, "\r\n\r\n");
        if (blank != NULL &&
            server->received_bytes - (size_t)(blank + 4 - server->received) >= (size_t)body_bytes)
            break;
    }
    server->requests++;
}

static void *server_thread(void *context)
{
    struct server *server = context;
    int fd = -1;
    char byte[256];
    for (const struct step *step = server->steps; step->kind != STEP_END; step++) {
        switch (step->kind) {
        case STEP_ACCEPT:
            fd = accept(server->listening, NULL, NULL);
            server->accepted++;
            break;
        case STEP_READ:
            server_read(server, fd, step->number);
            break;
        case STEP_SEND:
            (void)send(fd, step->text, strlen(step->text), MSG_NOSIGNAL);
            break;
        case STEP_SLEEP:
            usleep((useconds_t)step->number * 1000);
            break;
        case STEP_WAIT_EOF:
            while (recv(fd, byte, sizeof(byte), 0) > 0)
                continue;
            server->ends_seen++;
            break;
        case STEP_CLOSE:
            close(fd);
            break;
        case STEP_END:
            break;
        }
    }
    return NULL;
}

static void server_start(struct server *server, const struct step *steps)
{
    memset(server, 0, sizeof(*server));
    server->steps = steps;
    snprintf(server->path, sizeof(server->path), "/tmp/http1_client.%d.sock", (int)getpid());
    assert_int_equal(listener_bind_unix(&server->listening, server->path), STATUS_OK);
    pthread_create(&server->thread, NULL, server_thread, server);
}

static void server_stop(struct server *server)
{
    pthread_join(server->thread, NULL);
    close(server->listening);
    unlink(server->path);
}

/* --- the client under test, driven on the test's own thread ---------------------------------- */

struct run {
    struct loop *loop;
    struct http1_client *client;
    struct http1_exchange *exchange;
    int heads, bodies, ends;
    int code;
    uint32_t retry_after_ms, protocol;
    char content_type[64];
    struct buffer body;
    enum status status;
    bool stops_at_end;
    bool pauses_at_head;
    bool pauses_at_body;
    bool half_closes_at_body;
    bool cancels_at_body;
    struct loop_timer *timer;
};

static void on_head(void *context, const struct http1_head *head)
{
    struct run *run = context;
    struct slice content_type = head->content_type;
    run->heads++;
    run->code = head->code;
    run->retry_after_ms = head->retry_after_ms;
    run->protocol = head->protocol;
    assert_int_equal(run->bodies, 0);
    assert_true(content_type.length < sizeof(run->content_type));
    if (content_type.length > 0)
        memcpy(run->content_type, content_type.bytes, content_type.length);
    run->content_type[content_type.length] = '\0';
    if (run->pauses_at_head) {
        http1_exchange_pause(run->exchange);
        loop_timer_arm(run->timer, 30);
    }
}

static void on_body(void *context, struct slice bytes)
{
    struct run *run = context;
    run->bodies++;
    assert_int_equal(run->heads, 1);
    assert_true(bytes.length > 0);
    buffer_append_slice(&run->body, bytes);
    if (run->pauses_at_body) {
        http1_exchange_pause(run->exchange);
        loop_timer_arm(run->timer, 30);
    }
    if (run->half_closes_at_body)
        http1_exchange_half_close(run->exchange);
    if (run->cancels_at_body)
        http1_exchange_cancel(run->exchange);
}

static void on_ended(void *context, enum status status)
{
    struct run *run = context;
    run->ends++;
    assert_int_equal(run->ends, 1);
    run->status = status;
    if (run->stops_at_end)
        loop_stop(run->loop);
}

static void on_resume(void *context)
{
    struct run *run = context;
    assert_int_equal(run->ends, 0); /* paused: nothing may have ended it */
    http1_exchange_resume(run->exchange);
}

static const struct http1_callbacks callbacks = {on_head, on_body, on_ended};

/* Longer than any machine takes for an answer, but in the test of what happens then. */
enum { LONG_MS = 60000, SHORT_MS = 200 };
static uint32_t head_ms = LONG_MS;
static uint32_t idle_ms = LONG_MS;

static void run_init(struct run *run, const char *path, uint32_t connections_max)
{
    *run = (struct run){.stops_at_end = true};
    assert_int_equal(loop_create(&run->loop), STATUS_OK);
    struct http1_client_options options = {.loop = run->loop,
                                           .unix_path = path,
                                           .connections_max = connections_max,
                                           .connect_timeout_ms = 300,
                                           .head_timeout_ms = head_ms,
                                           .idle_timeout_ms = idle_ms,
                                           .peer_uid = -1};
    assert_int_equal(http1_client_create(&run->client, &options), STATUS_OK);
    buffer_init(&run->body, 1 << 20);
    run->timer = loop_timer_create(run->loop, on_resume, run);
}

static void run_deinit(struct run *run)
{
    http1_client_destroy(run->client);
    loop_timer_destroy(run->timer);
    loop_destroy(run->loop);
    buffer_deinit(&run->body);
}

static void run_begin(struct run *run)
{
    run->heads = run->bodies = run->ends = 0;
    buffer_clear(&run->body);
    assert_int_equal(http1_exchange_start(run->client, SLICE("POST /x HTTP/1.1\r\nhost: e"),
                                          SLICE("hello"), &callbacks, run, &run->exchange),
                     STATUS_OK);
}

static void run_whole(struct run *run)
{
    run_begin(run);
    loop_run(run->loop);
    assert_int_equal(run->ends, 1);
}

static void assert_body(const struct run *run, const char *text)
{
    assert_int_equal(run->body.length, strlen(text));
    assert_memory_equal(run->body.bytes, text, strlen(text));
}

#define HEAD_CHUNKED                                                                               \
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

/* One exchange against one script. */
static void run_script(const struct step *steps, struct run *run, void (*prepare)(struct run *run))
{
    struct server server;
    server_start(&server, steps);
    run_init(run, server.path, 4);
    if (prepare != NULL)
        prepare(run);
    run_whole(run);
    http1_client_destroy(run->client);
    run->client = NULL;
    server_stop(&server);
}

static void test_lengths(void **state)
{
    (void)state;
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, "HTTP/1.1 100 Continue\r\n\r\n", 0},
        {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Ty", 0},
        {STEP_SLEEP, NULL, 20},
        {STEP_SEND, "pe: application/json\r\nContent-Length: 7\r\n\r\nab", 0},
        {STEP_SLEEP, NULL, 20},
        {STEP_SEND, "cdefg", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    struct run run;
    run_script(steps, &run, NULL);
    assert_int_equal(run.status, STATUS_OK);
    assert_int_equal(run.code, 200);
    assert_string_equal(run.content_type, "application/json");
    assert_body(&run, "abcdefg");
    run_deinit(&run);
}

static void test_request_as_sent(void **state)
{
    (void)state;
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, "HTTP/1.1 204 No Content\r\n\r\n", 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    struct server server;
    server_start(&server, steps);
    struct run run;
    run_init(&run, server.path, 4);
    run_whole(&run);
    assert_int_equal(run.status, STATUS_OK);
    assert_int_equal(run.code, 204);
    assert_int_equal(run.bodies, 0);
    server_stop(&server);
    assert_string_equal(server.received,
                        "POST /x HTTP/1.1\r\nhost: e\r\ncontent-length: 5\r\n\r\nhello");
    run_deinit(&run);
}

static void test_chunks(void **state)
{
    (void)state;
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, HEAD_CHUNKED "3\r\nabc\r", 0},
        {STEP_SLEEP, NULL, 20},
        {STEP_SEND, "\n2\r\nde\r\n0\r\n", 0},
        {STEP_SLEEP, NULL, 20},
        {STEP_SEND, "\r\n", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    struct run run;
    run_script(steps, &run, NULL);
    assert_int_equal(run.status, STATUS_OK);
    assert_body(&run, "abcde");
    run_deinit(&run);
}

/* Every way of being cut, and none of them a normal end. */
static void test_cuts(void **state)
{
    (void)state;
    const struct {
        const char *text;
        enum status status;
        int heads;
    } rows[] = {
        {"", STATUS_UNAVAILABLE, 0},
        {"HTTP/1.1 200 OK\r\nConte", STATUS_PROTOCOL, 0},
        {HEAD_CHUNKED, STATUS_PROTOCOL, 1},
        {HEAD_CHUNKED "3\r\nabc\r\n", STATUS_PROTOCOL, 1}, /* between two chunks */
        {HEAD_CHUNKED "3\r\nab", STATUS_PROTOCOL, 1},
        {HEAD_CHUNKED "3\r\nabc\r\n0\r\n", STATUS_PROTOCOL, 1},
        {HEAD_CHUNKED "x\r\n", STATUS_PROTOCOL, 1},
        {"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nabcdef", STATUS_PROTOCOL, 1},
        {"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 7\r\n\r\nabcdefg",
         STATUS_PROTOCOL, 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n",
         STATUS_PROTOCOL, 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", STATUS_PROTOCOL, 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", STATUS_PROTOCOL, 0},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", STATUS_PROTOCOL, 0},
        {"SSH-2.0-x\r\n\r\n", STATUS_PROTOCOL, 0},
        {"HTTP/1.1 200 OK\r\n\r\nabc", STATUS_OK, 1}, /* ended by its connection: by its framing */
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct step steps[] = {
            {STEP_ACCEPT, NULL, 0}, {STEP_READ, NULL, 5},  {STEP_SEND, rows[i].text, 0},
            {STEP_SLEEP, NULL, 5},  {STEP_CLOSE, NULL, 0}, {STEP_END, NULL, 0},
        };
        struct run run;
        run_script(steps, &run, NULL);
        if (run.status != rows[i].status || run.heads != rows[i].heads)
            fail_msg("row %zu: %s and %d heads, wanted %s and %d", i, status_name(run.status),
                     run.heads, status_name(rows[i].status), rows[i].heads);
        run_deinit(&run);
    }
}

static void test_head_too_long(void **state)
{
    (void)state;
    static char head[40000];
    memset(head, 'x', sizeof(head) - 1);
    memcpy(head, "HTTP/1.1 200 OK\r\na: ", 20);
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0},   {STEP_READ, NULL, 5},  {STEP_SEND, head, 0},
        {STEP_WAIT_EOF, NULL, 0}, {STEP_CLOSE, NULL, 0}, {STEP_END, NULL, 0},
    };
    struct run run;
    run_script(steps, &run, NULL);
    assert_int_equal(run.status, STATUS_PROTOCOL);
    run_deinit(&run);
}

static void prepare_half_close(struct run *run)
{
    run->half_closes_at_body = true;
}

/* Half-close: the server sees the end of the request side, and its last words still arrive. */
static void test_half_close(void **state)
{
    (void)state;
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, HEAD_CHUNKED "3\r\nabc\r\n", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_SEND, "5\r\nfinal\r\n0\r\n\r\n", 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    struct run run;
    run_script(steps, &run, prepare_half_close);
    assert_int_equal(run.status, STATUS_OK);
    assert_body(&run, "abcfinal");
    run_deinit(&run);
}

static void prepare_cancel(struct run *run)
{
    run->cancels_at_body = true;
}

static void test_cancel(void **state)
{
    (void)state;
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, HEAD_CHUNKED "3\r\nabc\r\n", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    struct run run;
    run_script(steps, &run, prepare_cancel);
    assert_int_equal(run.status, STATUS_CANCELLED);
    run_deinit(&run);
}

static void prepare_pauses(struct run *run)
{
    run->pauses_at_head = true;
    run->pauses_at_body = true;
}

/* Pauses at every callback, with the rest and the end already in the socket: nothing is lost. */
static void test_pause(void **state)
{
    (void)state;
    const char *texts[] = {
        HEAD_CHUNKED "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabcde",
        "HTTP/1.1 200 OK\r\n\r\nabcde",
    };
    for (size_t i = 0; i < 3; i++) {
        const struct step steps[] = {
            {STEP_ACCEPT, NULL, 0}, {STEP_READ, NULL, 5}, {STEP_SEND, texts[i], 0},
            {STEP_CLOSE, NULL, 0},  {STEP_END, NULL, 0},
        };
        struct run run;
        run_script(steps, &run, prepare_pauses);
        assert_int_equal(run.status, STATUS_OK);
        assert_body(&run, "abcde");
        run_deinit(&run);
    }
}

static void test_deadlines(void **state)
{
    (void)state;
    const struct step no_head[] = {
        {STEP_ACCEPT, NULL, 0}, {STEP_READ, NULL, 5}, {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},  {STEP_END, NULL, 0},
    };
    const struct step no_body[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, HEAD_CHUNKED "3\r\nabc\r\n", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    struct run run;
    head_ms = SHORT_MS;
    run_script(no_head, &run, NULL);
    head_ms = LONG_MS;
    assert_int_equal(run.status, STATUS_DEADLINE);
    assert_int_equal(run.heads, 0);
    run_deinit(&run);
    idle_ms = SHORT_MS;
    run_script(no_body, &run, NULL);
    idle_ms = LONG_MS;
    assert_int_equal(run.status, STATUS_DEADLINE);
    assert_body(&run, "abc");
    run_deinit(&run);
}

/* The numbers of a head; what is no number was not said. */
static void test_head_fields(void **state)
{
    (void)state;
    const struct {
        const char *fields;
        uint32_t retry_after_ms, protocol;
    } rows[] = {
        {"", 0, 0},
        {"Retry-After-Ms: 1500\r\nX-Banyan-Protocol: 1\r\n", 1500, 1},
        {"retry-after-ms: 1e3\r\nx-banyan-protocol: one\r\n", 0, 0},
        {"retry-after-ms: -1\r\nx-banyan-protocol: \r\n", 0, 0},
        {"retry-after-ms: 4294967296\r\nx-banyan-protocol: 99999999999999999999999\r\n", UINT32_MAX,
         0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256];
        snprintf(text, sizeof(text), "HTTP/1.1 503 Busy\r\n%scontent-length: 0\r\n\r\n",
                 rows[i].fields);
        const struct step steps[] = {
            {STEP_ACCEPT, NULL, 0},   {STEP_READ, NULL, 5},  {STEP_SEND, text, 0},
            {STEP_WAIT_EOF, NULL, 0}, {STEP_CLOSE, NULL, 0}, {STEP_END, NULL, 0},
        };
        struct run run;
        run_script(steps, &run, NULL);
        assert_int_equal(run.code, 503);
        assert_int_equal(run.retry_after_ms, rows[i].retry_after_ms);
        assert_int_equal(run.protocol, rows[i].protocol);
        run_deinit(&run);
    }
}

/* Who listens is asked before a byte is sent. */
static void test_peer_uid(void **state)
{
    (void)state;
    const struct step taken[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, "HTTP/1.1 204 No Content\r\n\r\n", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    const struct step refused[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    for (int is_foreign = 0; is_foreign < 2; is_foreign++) {
        struct server server;
        server_start(&server, is_foreign ? refused : taken);
        struct run run;
        run_init(&run, server.path, 4);
        http1_client_destroy(run.client);
        struct http1_client_options options = {.loop = run.loop,
                                               .unix_path = server.path,
                                               .connections_max = 4,
                                               .connect_timeout_ms = 300,
                                               .head_timeout_ms = 200,
                                               .idle_timeout_ms = 200,
                                               .peer_uid = (int64_t)getuid() + is_foreign};
        assert_int_equal(http1_client_create(&run.client, &options), STATUS_OK);
        run_whole(&run);
        assert_int_equal(run.status, is_foreign ? STATUS_FORBIDDEN : STATUS_OK);
        http1_client_destroy(run.client);
        run.client = NULL;
        server_stop(&server);
        assert_int_equal(server.requests, is_foreign ? 0 : 1);
        run_deinit(&run);
    }
}

static void test_nobody_listens(void **state)
{
    (void)state;
    struct run run;
    run_init(&run, "/tmp/http1_client.nobody.sock", 4);
    run_whole(&run);
    assert_int_equal(run.status, STATUS_UNAVAILABLE);
    assert_int_equal(run.heads, 0);
    run_deinit(&run);
    char longest[200];
    memset(longest, 'p', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    struct http1_client_options options = {.unix_path = longest};
    struct http1_client *client;
    assert_int_equal(http1_client_create(&client, &options), STATUS_INVALID);
}

/* A full backlog is EAGAIN on a Unix socket: waited out, up to the connect deadline. */
static void test_full_backlog(void **state)
{
    (void)state;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof(name.sun_path), "/tmp/http1_client.%d.full", (int)getpid());
    int listening = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(listening, 0), 0);
    int held[8];
    size_t count = 0;
    for (;;) {
        assert_true(count < 8);
        held[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        int result = connect(held[count], (struct sockaddr *)&name, sizeof(name));
        count++;
        if (result != 0)
            break;
    }
    assert_int_equal(errno, EAGAIN);
    struct run run;
    run_init(&run, name.sun_path, 4);
    int64_t begin_us = loop_now_us(run.loop);
    run_whole(&run);
    assert_int_equal(run.status, STATUS_UNAVAILABLE);
    assert_true(loop_now_us(run.loop) - begin_us >= 300000);
    /* Given up meanwhile: nobody has to be told, and it was never sent. */
    run_begin(&run);
    assert_false(http1_exchange_is_sent(run.exchange));
    http1_exchange_half_close(run.exchange);
    assert_int_equal(run.ends, 0);
    loop_run(run.loop);
    assert_int_equal(run.status, STATUS_CANCELLED);
    run_deinit(&run);
    for (size_t i = 0; i < count; i++)
        close(held[i]);
    close(listening);
    unlink(name.sun_path);
}

/* One connection serves one exchange after the other; the cap is BUSY at n + 1. */
static void test_pool(void **state)
{
    (void)state;
    const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0}, {STEP_READ, NULL, 5},   {STEP_SEND, answer, 0},
        {STEP_READ, NULL, 5},   {STEP_SEND, answer, 0}, {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},  {STEP_END, NULL, 0},
    };
    struct server server;
    server_start(&server, steps);
    struct run run;
    run_init(&run, server.path, 1);
    run_begin(&run);
    struct http1_exchange *second;
    assert_int_equal(http1_exchange_start(run.client, SLICE("GET / HTTP/1.1"), SLICE(""),
                                          &callbacks, &run, &second),
                     STATUS_BUSY);
    loop_run(run.loop);
    assert_int_equal(run.status, STATUS_OK);
    run_whole(&run);
    assert_int_equal(run.status, STATUS_OK);
    assert_body(&run, "ok");
    http1_client_destroy(run.client);
    run.client = NULL;
    server_stop(&server);
    assert_int_equal(server.accepted, 1);
    assert_int_equal(server.requests, 2);
    run_deinit(&run);
}

/* Answers a burst, then counts the connections that the client gives back. */
enum { BURST = LIMIT_UPSTREAM_IDLE + 3 };

static void *burst_thread(void *context)
{
    struct server *server = context;
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    int fds[BURST];
    for (int i = 0; i < BURST; i++) {
        fds[i] = accept(server->listening, NULL, NULL);
        server->accepted++;
        server_read(server, fds[i], 5);
    }
    for (int i = 0; i < BURST; i++)
        (void)send(fds[i], answer, sizeof answer - 1, MSG_NOSIGNAL);
    for (int look = 0; look < 12000 && server->ends_seen < BURST - LIMIT_UPSTREAM_IDLE; look++) {
        usleep(10000); /* for the client to give back what it does not keep */
        server->ends_seen = 0;
        for (int i = 0; i < BURST; i++) {
            struct pollfd end = {.fd = fds[i], .events = POLLIN};
            server->ends_seen += poll(&end, 1, 0) == 1;
        }
    }
    for (int i = 0; i < BURST; i++)
        close(fds[i]);
    return NULL;
}

static int burst_left;
static void on_burst_ended(void *context, enum status status)
{
    struct run *run = context;
    assert_int_equal(status, STATUS_OK);
    if (--burst_left == 0)
        loop_timer_arm(run->timer, 200);
}
static void on_burst_head(void *context, const struct http1_head *head)
{
    (void)context;
    assert_int_equal(head->code, 200);
}
static void on_burst_body(void *context, struct slice bytes)
{
    (void)context;
    assert_int_equal(bytes.length, 2);
}
static void on_burst_over(void *context)
{
    loop_stop(((struct run *)context)->loop);
}

static void test_burst_is_given_back(void **state)
{
    (void)state;
    static const struct http1_callbacks burst = {on_burst_head, on_burst_body, on_burst_ended};
    struct server server = {0};
    snprintf(server.path, sizeof(server.path), "/tmp/http1_client.%d.sock", (int)getpid());
    assert_int_equal(listener_bind_unix(&server.listening, server.path), STATUS_OK);
    fcntl(server.listening, F_SETFL, 0);
    pthread_create(&server.thread, NULL, burst_thread, &server);
    struct run run;
    run_init(&run, server.path, BURST);
    loop_timer_destroy(run.timer);
    run.timer = loop_timer_create(run.loop, on_burst_over, &run);
    burst_left = BURST;
    for (int i = 0; i < BURST; i++) {
        struct http1_exchange *exchange;
        assert_int_equal(http1_exchange_start(run.client, SLICE("POST /x HTTP/1.1\r\nhost: e"),
                                              SLICE("hello"), &burst, &run, &exchange),
                         STATUS_OK);
    }
    loop_run(run.loop);
    pthread_join(server.thread, NULL);
    assert_int_equal(server.ends_seen, BURST - LIMIT_UPSTREAM_IDLE);
    close(server.listening);
    unlink(server.path);
    run_deinit(&run);
}

/* Larger than the socket's buffer, and not copied. */
static void test_a_large_body(void **state)
{
    (void)state;
    enum { BODY_BYTES = 512 * 1024 };
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, BODY_BYTES},
        {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    static char body[BODY_BYTES];
    static struct server server;
    memset(body, 'a', sizeof body);
    body[BODY_BYTES - 1] = 'z';
    server_start(&server, steps);
    struct run run;
    run_init(&run, server.path, 1);
    run.heads = run.bodies = run.ends = 0;
    assert_int_equal(http1_exchange_start(run.client, SLICE("POST /x HTTP/1.1\r\nhost: e"),
                                          (struct slice){body, sizeof body}, &callbacks, &run,
                                          &run.exchange),
                     STATUS_OK);
    loop_run(run.loop);
    assert_int_equal(run.status, STATUS_OK);
    assert_body(&run, "ok");
    http1_client_destroy(run.client);
    run.client = NULL;
    server_stop(&server);
    const char *sent = strstr(server.received, "\r\n\r\n");
    assert_non_null(sent);
    assert_int_equal(server.received_bytes - (size_t)(sent + 4 - server.received), BODY_BYTES);
    assert_non_null(strstr(server.received, "content-length: 524288\r\n"));
    assert_int_equal(server.received[server.received_bytes - 1], 'z');
    run_deinit(&run);
}

/* The server closes an idle connection: before it is taken (noticed), or just when the next request
 * is on its way (retried once on a fresh one). */
static void test_stale(void **state)
{
    (void)state;
    const char *answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0}, {STEP_READ, NULL, 5},   {STEP_SEND, answer, 0},
        {STEP_READ, NULL, 5},   {STEP_CLOSE, NULL, 0},  {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},   {STEP_SEND, answer, 0}, {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},  {STEP_END, NULL, 0},
    };
    struct server server;
    server_start(&server, steps);
    struct run run;
    run_init(&run, server.path, 1);
    run_whole(&run);
    assert_int_equal(run.status, STATUS_OK);
    run_whole(&run);
    assert_int_equal(run.status, STATUS_OK);
    assert_body(&run, "ok");
    http1_client_destroy(run.client);
    run.client = NULL;
    server_stop(&server);
    assert_int_equal(server.accepted, 2);
    assert_int_equal(server.requests, 3);
    run_deinit(&run);
}

/* Bytes after the answer, or unasked on an idle connection: it is not used again. */
static void test_not_reused(void **state)
{
    (void)state;
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nya", 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    struct server server;
    server_start(&server, steps);
    struct run run;
    run_init(&run, server.path, 1);
    const char *bodies[] = {"ok", "no", "ya"};
    for (size_t i = 0; i < 3; i++) {
        run_whole(&run);
        assert_int_equal(run.status, STATUS_OK);
        assert_body(&run, bodies[i]);
    }
    server_stop(&server);
    assert_int_equal(server.accepted, 3);
    run_deinit(&run);
}

static void test_destroy_cancels(void **state)
{
    (void)state;
    const struct step steps[] = {{STEP_ACCEPT, NULL, 0},
                                 {STEP_WAIT_EOF, NULL, 0},
                                 {STEP_CLOSE, NULL, 0},
                                 {STEP_END, NULL, 0}};
    struct server server;
    server_start(&server, steps);
    struct run run;
    run_init(&run, server.path, 4);
    run_begin(&run);
    assert_true(http1_exchange_is_sent(run.exchange));
    http1_client_destroy(run.client);
    run.client = NULL;
    assert_int_equal(run.ends, 1);
    assert_int_equal(run.status, STATUS_CANCELLED);
    server_stop(&server);
    run_deinit(&run);
}

/* --- over TCP ------------------------------------------------------------------------------- */

static int tcp_listen(struct sockaddr_in *address, int backlog)
{
    socklen_t length = sizeof(*address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)address, sizeof(*address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &length), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

static void run_init_tcp(struct run *run, const struct sockaddr_in *address)
{
    run_init(run, "", 4);
    http1_client_destroy(run->client);
    const struct http1_client_options options = {.loop = run->loop,
                                                 .connections_max = 4,
                                                 .connect_timeout_ms = 300,
                                                 .head_timeout_ms = head_ms,
                                                 .idle_timeout_ms = idle_ms,
                                                 .peer_uid = -1,
                                                 .address = (const struct sockaddr *)address};
    assert_int_equal(http1_client_create(&run->client, &options), STATUS_OK);
}

/* A connection is made, kept and used again. */
static void test_tcp(void **state)
{
    (void)state;
    const struct step steps[] = {
        {STEP_ACCEPT, NULL, 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", 0},
        {STEP_READ, NULL, 5},
        {STEP_SEND, "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno", 0},
        {STEP_WAIT_EOF, NULL, 0},
        {STEP_CLOSE, NULL, 0},
        {STEP_END, NULL, 0},
    };
    struct server server = {.steps = steps};
    struct sockaddr_in address;
    server.listening = tcp_listen(&address, 4);
    pthread_create(&server.thread, NULL, server_thread, &server);
    struct run run;
    run_init_tcp(&run, &address);
    run_begin(&run);
    assert_false(http1_exchange_is_sent(run.exchange)); /* it connects first */
    loop_run(run.loop);
    assert_int_equal(run.status, STATUS_OK);
    assert_body(&run, "ok");
    run_whole(&run);
    assert_int_equal(run.status, STATUS_OK);
    assert_body(&run, "no");
    run_deinit(&run);
    pthread_join(server.thread, NULL);
    close(server.listening);
    assert_int_equal(server.accepted, 1);
}

static void test_tcp_nobody_listens(void **state)
{
    (void)state;
    struct sockaddr_in address;
    struct run run;
    close(tcp_listen(&address, 4));
    run_init_tcp(&run, &address);
    run_whole(&run);
    assert_int_equal(run.status, STATUS_UNAVAILABLE);
    assert_int_equal(run.heads, 0);
    run_deinit(&run);
}

/* A server that answers no connect: the connect's deadline ends the exchange, or the caller. */
static void test_tcp_never_connected(void **state)
{
    (void)state;
    enum { HELD = 4 };
    struct sockaddr_in address;
    int held[HELD];
    int listening = tcp_listen(&address, 0);
    for (size_t i = 0; i < HELD; i++) { /* the backlog is full then */
        held[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(held[i], (struct sockaddr *)&address, sizeof(address));
    }
    struct run run;
    run_init_tcp(&run, &address);
    int64_t begin_us = loop_now_us(run.loop);
    run_whole(&run);
    assert_int_equal(run.status, STATUS_UNAVAILABLE);
    assert_true(loop_now_us(run.loop) - begin_us >= 290000);
    run_begin(&run);
    http1_exchange_pause(run.exchange);
    http1_exchange_resume(run.exchange);
    http1_exchange_half_close(run.exchange);
    assert_int_equal(run.ends, 0);
    loop_run(run.loop);
    assert_int_equal(run.status, STATUS_CANCELLED);
    run_begin(&run);
    run.stops_at_end = false;
    http1_exchange_cancel(run.exchange);
    assert_int_equal(run.ends, 1);
    run_begin(&run);
    run_deinit(&run); /* which ends what connects */
    for (size_t i = 0; i < HELD; i++)
        close(held[i]);
    close(listening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_tcp_nobody_listens),
        cmocka_unit_test(test_tcp_never_connected),
        cmocka_unit_test(test_a_large_body),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_request_as_sent),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_head_too_long),
        cmocka_unit_test(test_half_close),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_head_fields),
        cmocka_unit_test(test_peer_uid),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_full_backlog),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_not_reused),
        cmocka_unit_test(test_destroy_cancels),
        cmocka_unit_test(test_burst_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
