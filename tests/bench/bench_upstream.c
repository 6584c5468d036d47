/* bench_upstream: an engine that computes nothing, to measure only the gateway in front of it. It
 * speaks the engine's side of the socket: banyan.start, data frames with "n", banyan.final.
 *
 * bench_upstream SOCKET [GAP_US] bench_upstream PORT
 *
 * With a port it is an OpenAI server on 127.0.0.1 that answers without streaming, to measure other
 * gateways. The body of a request chooses the answer: "max_tokens":N gives N frames; "seed":1 keeps
 * the stream open after the first frame until the client closes it (idle streams). With GAP_US each
 * stream sends one frame in every tick, else all frames in one write. Prints "ready" once it
 * listens. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

enum { INPUT_BYTES = 16384, OUTPUT_BYTES = 65536, EVENTS = 256, CONNECTIONS_MAX = 20000 };

struct connection {
    int fd;
    size_t used;       /* bytes of input */
    size_t body_left;  /* bytes still to skip of a body larger than the input buffer */
    uint32_t wanted;   /* frames that the current stream shall have */
    uint32_t made;     /* frames that it has sent */
    bool is_streaming; /* between the head and the final record */
    bool is_held;
    char input[INPUT_BYTES];
};

static struct connection *connections[CONNECTIONS_MAX];
static uint64_t record_seq;
static long gap_us;
static bool is_openai;
static char output[OUTPUT_BYTES];
static size_t output_used;

static void out_text(const char *text)
{
    size_t length = strlen(text);
    if (output_used + length > sizeof output)
        abort();
    memcpy(output + output_used, text, length);
    output_used += length;
}

static void out_chunk(const char *data)
{
    char size[16];
    snprintf(size, sizeof size, "%zx\r\n", strlen(data));
    out_text(size);
    out_text(data);
    out_text("\r\n");
}

static void out_flush(struct connection *connection)
{
    for (size_t at = 0; at < output_used;) {
        ssize_t count = write(connection->fd, output + at, output_used - at);
        if (count < 0 && errno != EAGAIN && errno != EINTR)
            break; /* the code that reads sees the end too */
        if (count > 0)
            at += (size_t)count;
    }
    output_used = 0;
}

static void out_frame(struct connection *connection)
{
    char frame[512];
    snprintf(frame, sizeof frame,
             "data: {\"n\":%u,\"id\":\"chatcmpl-00000000000000000000000000000000\","
             "\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\","
             "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"logprobs\":null,"
             "\"finish_reason\":%s}]}\n\n",
             connection->made + 1,
             connection->made + 1 == connection->wanted ? "\"length\"" : "null");
    connection->made++;
    out_chunk(frame);
}

static void out_final(struct connection *connection, const char *finish)
{
    char frame[512];
    snprintf(frame, sizeof frame,
             "event: banyan.final\ndata: {\"protocol\":1,\"request_id\":\"req_bench\","
             "\"record_seq\":%llu,\"prompt_tokens\":32,\"cached_tokens\":0,"
             "\"completion_tokens\":%u,\"finish_reason\":\"%s\",\"estimated\":false,"
             "\"queue_us\":1,\"prefill_us\":1,\"decode_us\":1,\"preemptions\":0,"
             "\"swapped_pages\":0,\"swap_us\":0}\n\n",
             (unsigned long long)++record_seq, connection->made, finish);
    out_chunk(frame);
    out_text("0\r\n\r\n");
    connection->is_streaming = false;
}

static void answer_plain(struct connection *connection, const char *json)
{
    char head[256];
    snprintf(head, sizeof head,
             "HTTP/1.1 200 OK\r\nx-banyan-protocol: 1\r\ncontent-type: application/json\r\n"
             "content-length: %zu\r\n\r\n",
             strlen(json));
    out_text(head);
    out_text(json);
    out_flush(connection);
}

static unsigned long body_number(const char *body, const char *name)
{
    const char *at = strstr(body, name);
    return at == NULL ? 0 : strtoul(at + strlen(name), NULL, 10);
}

static void answer_stream(struct connection *connection, const char *body)
{
    unsigned long tokens = body_number(body, "\"max_tokens\":");
    connection->wanted = tokens == 0 || tokens > 100000 ? 1 : (uint32_t)tokens;
    connection->made = 0;
    connection->is_streaming = true;
    connection->is_held = body_number(body, "\"seed\":") == 1;
    out_text("HTTP/1.1 200 OK\r\nx-banyan-protocol: 1\r\n"
             "content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
             "transfer-encoding: chunked\r\n\r\n");
    out_chunk("event: banyan.start\ndata: {\"protocol\":1,\"request_id\":\"req_bench\","
              "\"prompt_tokens\":32,\"cached_tokens\":0,\"queue_us\":1}\n\n");
    if (connection->is_held || gap_us > 0) {
        out_frame(connection);
    } else {
        while (connection->made < connection->wanted) {
            out_frame(connection);
            if (output_used > OUTPUT_BYTES / 2)
                out_flush(connection);
        }
        out_final(connection, "length");
    }
    out_flush(connection);
}

static void answer(struct connection *connection, const char *head, const char *body)
{
    if (is_openai)
        answer_plain(
            connection,
            "{\"id\":\"chatcmpl-0\",\"object\":\"chat.completion\",\"created\":1700000000,"
            "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
            "\"assistant\",\"content\":\" word\"},\"finish_reason\":\"length\"}],\"usage\":"
            "{\"prompt_tokens\":32,\"completion_tokens\":1,\"total_tokens\":33}}");
    else if (strncmp(head, "POST /v1/", 9) == 0)
        answer_stream(connection, body);
    else if (strncmp(head, "GET /internal/v1/stats", 22) == 0)
        answer_plain(connection, "{\"protocol\":1,\"instance\":\"00000000bench000\","
                                 "\"model\":\"bench\",\"requests\":0,\"jobs\":0,\"steps\":0,"
                                 "\"is_draining\":false}");
    else if (strncmp(head, "GET /internal/v1/finals", 23) == 0)
        answer_plain(connection, "{\"object\":\"list\",\"instance\":\"00000000bench000\","
                                 "\"acked\":0,\"lost\":0,\"data\":[],\"last\":0,"
                                 "\"has_more\":false}");
    else
        answer_plain(connection, "{\"status\":\"ok\",\"protocol\":1}");
}

static void forget(struct connection *connection)
{
    connections[connection->fd] = NULL;
    close(connection->fd);
    free(connection);
}

/* Takes one request from the front of the input, if it is whole. A body larger than the buffer is
 * answered by its beginning, and the rest is skipped. */
static bool take_request(struct connection *connection)
{
    connection->input[connection->used] = '\0';
    char *end = strstr(connection->input, "\r\n\r\n");
    if (end == NULL || connection->is_streaming)
        return false;
    size_t head = (size_t)(end + 4 - connection->input);
    const char *length = strcasestr(connection->input, "\r\ncontent-length:");
    size_t body = length != NULL && length < end ? strtoul(length + 17, NULL, 10) : 0;
    size_t have = connection->used - head;
    if (have < body && connection->used < INPUT_BYTES - 1)
        return false;
    answer(connection, connection->input, connection->input + head);
    size_t taken = have < body ? have : body;
    connection->body_left = body - taken;
    memmove(connection->input, connection->input + head + taken, connection->used - head - taken);
    connection->used -= head + taken;
    return true;
}

static void on_readable(struct connection *connection)
{
    for (;;) {
        ssize_t count = read(connection->fd, connection->input + connection->used,
                             INPUT_BYTES - 1 - connection->used);
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (count <= 0) {
            /* the peer closed its half: the request is cancelled */
            if (count == 0 && connection->is_streaming) {
                out_final(connection, "cancelled");
                out_flush(connection);
            }
            forget(connection);
            return;
        }
        size_t skipped =
            (size_t)count < connection->body_left ? (size_t)count : connection->body_left;
        connection->body_left -= skipped;
        memmove(connection->input + connection->used,
                connection->input + connection->used + skipped, (size_t)count - skipped);
        connection->used += (size_t)count - skipped;
        while (take_request(connection))
            ;
    }
}

static void on_tick(int timer)
{
    uint64_t ticks;
    if (read(timer, &ticks, sizeof ticks) != (ssize_t)sizeof ticks)
        return;
    for (int fd = 0; fd < CONNECTIONS_MAX; fd++) {
        struct connection *connection = connections[fd];
        if (connection == NULL || !connection->is_streaming || connection->is_held)
            continue;
        out_frame(connection);
        if (connection->made >= connection->wanted)
            out_final(connection, "length");
        out_flush(connection);
    }
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, 4096) != 0)
        return -1;
    return fd;
}

static int listen_port(const char *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 4096) != 0)
        return -1;
    return fd;
}

static void on_connect(int poll, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct connection *connection = fd < CONNECTIONS_MAX ? calloc(1, sizeof *connection) : NULL;
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
        if (connection == NULL || epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event) != 0) {
            free(connection);
            close(fd);
            continue;
        }
        connection->fd = fd;
        connections[fd] = connection;
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: bench_upstream SOCKET [GAP_US] | PORT\n");
        return 2;
    }
    gap_us = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    is_openai = strspn(argv[1], "0123456789") == strlen(argv[1]);
    int listener = is_openai ? listen_port(argv[1]) : listen_at(argv[1]);
    int poll = epoll_create1(EPOLL_CLOEXEC);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (listener < 0 || poll < 0 || timer < 0) {
        perror(argv[1]);
        return 1;
    }
    struct itimerspec every = {.it_interval = {gap_us / 1000000, gap_us % 1000000 * 1000},
                               .it_value = {gap_us / 1000000, gap_us % 1000000 * 1000}};
    (void)timerfd_settime(timer, 0, &every, NULL);
    int own[] = {listener, timer};
    for (int i = 0; i < 2; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.fd = own[i]};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, own[i], &event) != 0)
            return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(poll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                on_connect(poll, listener);
            else if (events[i].data.fd == timer)
                on_tick(timer);
            else if (connections[events[i].data.fd] != NULL)
                on_readable(connections[events[i].data.fd]);
        }
    }
}
