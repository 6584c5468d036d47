#include "gateway/upstream/http1_client.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "gateway/http/loop_h2o.h"
#include "gateway/upstream/http1_response.h"

enum {
    /* Doubled at each try, so that many exchanges that find a full backlog do not fill the loop. */
    CONNECT_RETRY_MS = 5,
    CONNECT_RETRY_MS_MAX = 80,
};

/* A connection to the engine: an exchange uses it, or it is idle and in the client's stack. */
struct http1_connection {
    struct http1_client *client;
    h2o_socket_t *socket;
    struct http1_exchange *exchange; /* NULL while idle */
    struct http1_connection *below;  /* next in the stack of idle connections */
};

struct http1_client {
    struct loop *loop;
    struct sockaddr_storage address;
    socklen_t address_length;
    struct http1_client_options options;
    uint32_t connections_open; /* in use, being connected, or idle */
    uint32_t connections_idle;
    struct http1_connection *idle;    /* top of the stack */
    struct http1_exchange *exchanges; /* doubly linked */
};

enum http1_phase { PHASE_CONNECT, PHASE_FAILED, PHASE_HEAD, PHASE_BODY };

struct http1_exchange {
    struct http1_client *client;
    struct http1_exchange *previous, *next;
    struct http1_connection *connection; /* NULL until connected */
    struct loop_timer *timer;            /* the phase's deadline, or a deferred step */
    struct http1_callbacks callbacks;
    void *context;

    enum http1_phase phase;
    enum status failure; /* PHASE_FAILED: `ended` gets it in the loop's next turn */
    int64_t connect_until_us;
    uint32_t connect_retry_ms;
    enum http1_response_framing framing;
    uint64_t body_left; /* bytes, when the framing is LENGTH */
    struct phr_chunked_decoder decoder;
    size_t head_bytes_before; /* length of the input when the head was last parsed */

    uint32_t depth; /* functions that still use the exchange: it is freed at 0, after its end */
    bool is_reused;
    bool is_retried;
    bool is_sent;    /* bytes of the request went to a connection, now or before a retry */
    bool is_written; /* the whole request went to the kernel */
    bool has_answer; /* at least one byte of an answer came */
    bool is_keep_alive;
    bool is_paused;
    bool is_standing; /* the engine said that the answer stands still: no idle deadline */
    bool is_step_due; /* the timer will process input that came before a pause */
    bool is_half_closing;
    bool is_half_closed;
    bool is_ended;

    struct slice body; /* a large body, which stays the caller's; a small one is in `request` */
    size_t request_bytes;
    char request[]; /* head, blank line, small body */
};

static void on_read(h2o_socket_t *socket, const char *error);
static void process(struct http1_exchange *exchange);
static void attempt(struct http1_exchange *exchange, bool may_reuse);
static void on_connected(h2o_socket_t *socket, const char *error);

/* --- connections --------------------------------------------------------------------------- */

static void connection_close(struct http1_connection *connection)
{
    connection->client->connections_open--;
    h2o_socket_close(connection->socket);
    mem_free(connection);
}

/* Keeps the connection for a later exchange. When LIMIT_UPSTREAM_IDLE connections are idle it is
 * closed, so that the descriptors of a burst are given back here and in the engine. */
static void connection_park(struct http1_connection *connection)
{
    struct http1_client *client = connection->client;
    connection->exchange = NULL;
    if (client->connections_idle == LIMIT_UPSTREAM_IDLE) {
        connection_close(connection);
        return;
    }
    client->connections_idle++;
    connection->below = client->idle;
    client->idle = connection;
    /* An idle connection is read: the engine may close it, or send bytes that nobody asked for. */
    h2o_socket_read_start(connection->socket, on_read);
}

static void connection_unpark(struct http1_connection *connection)
{
    struct http1_connection **slot = &connection->client->idle;
    while (*slot != connection)
        slot = &(*slot)->below;
    *slot = connection->below;
    connection->client->connections_idle--;
}

enum connect_result {
    CONNECT_DONE,
    CONNECT_PENDING,
    CONNECT_LATER,
    CONNECT_FAILED,
    CONNECT_FOREIGN
};

static struct http1_connection *connection_create(struct http1_client *client, h2o_socket_t *socket)
{
    struct http1_connection *connection = mem_zalloc(1, sizeof(*connection));
    ASSERT(connection != NULL);
    connection->client = client;
    connection->socket = socket;
    socket->data = connection;
    return connection;
}

/* Whether another user's process listens at the path: it would see every prompt. */
static bool connection_is_foreign(const struct http1_client *client, int fd)
{
    struct ucred peer;
    socklen_t length = sizeof(peer);
    if (client->options.peer_uid < 0)
        return false;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
           (int64_t)peer.uid != client->options.peer_uid;
}

/* A Unix socket connects at once, or fails at once: with EAGAIN when the backlog is full. */
static enum connect_result connection_open(struct http1_client *client,
                                           struct http1_connection **out)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return CONNECT_LATER; /* there may be a free descriptor later */
    if (connect(fd, (const struct sockaddr *)&client->address, client->address_length) != 0) {
        int cause = errno;
        close(fd);
        return cause == EAGAIN || cause == EINTR ? CONNECT_LATER : CONNECT_FAILED;
    }
    if (connection_is_foreign(client, fd)) {
        close(fd);
        return CONNECT_FOREIGN;
    }
    *out = connection_create(client, h2o_evloop_socket_create(loop_h2o(client->loop), fd, 0));
    return CONNECT_DONE;
}

/* Over TCP the answer to a connect comes later: on_connected. */
static enum connect_result connection_open_tcp(struct http1_client *client,
                                               struct http1_connection **out)
{
    struct sockaddr *address = (struct sockaddr *)(void *)&client->address;
    h2o_socket_t *socket =
        h2o_socket_connect(loop_h2o(client->loop), address, client->address_length, on_connected);
    if (socket == NULL)
        return errno == EMFILE || errno == ENFILE ? CONNECT_LATER : CONNECT_FAILED;
    *out = connection_create(client, socket);
    return CONNECT_PENDING;
}

/* --- the end of an exchange ---------------------------------------------------------------- */

static void release_if_over(struct http1_exchange *exchange)
{
    if (exchange->is_ended && exchange->depth == 0)
        mem_free(exchange);
}

static bool may_park(const struct http1_exchange *exchange)
{
    return exchange->is_keep_alive && exchange->is_written && !exchange->is_half_closing &&
           exchange->connection->socket->input->size == 0;
}

/* Calls `ended`, once. The exchange may be freed when this returns. */
static void finish(struct http1_exchange *exchange, enum status status)
{
    if (exchange->is_ended)
        return;
    exchange->is_ended = true;
    struct http1_client *client = exchange->client;
    if (exchange->connection != NULL) {
        if (status == STATUS_OK && may_park(exchange))
            connection_park(exchange->connection);
        else
            connection_close(exchange->connection);
        exchange->connection = NULL;
    } else {
        client->connections_open--; /* it counted the connection that was not made */
    }
    if (exchange->previous != NULL)
        exchange->previous->next = exchange->next;
    else
        client->exchanges = exchange->next;
    if (exchange->next != NULL)
        exchange->next->previous = exchange->previous;
    loop_timer_destroy(exchange->timer);
    exchange->timer = NULL;
    exchange->depth++;
    exchange->callbacks.ended(exchange->context, status);
    exchange->depth--;
    release_if_over(exchange);
}

/* The connection ended or failed before the answer was complete. */
static void lose(struct http1_exchange *exchange, bool is_clean_end)
{
    if (exchange->phase == PHASE_BODY && exchange->framing == HTTP1_RESPONSE_CLOSE &&
        is_clean_end) {
        finish(exchange, STATUS_OK);
    } else if (exchange->has_answer) {
        finish(exchange, is_clean_end ? STATUS_PROTOCOL : STATUS_IO);
    } else if (exchange->is_half_closing) {
        finish(exchange, STATUS_CANCELLED);
    } else if (exchange->is_reused && !exchange->is_retried) {
        /* The engine closed the idle connection while it was taken, so it has begun nothing. */
        connection_close(exchange->connection);
        exchange->connection = NULL;
        exchange->client->connections_open++;
        exchange->is_retried = true;
        exchange->is_written = false;
        attempt(exchange, false);
    } else {
        finish(exchange, STATUS_UNAVAILABLE);
    }
}

/* --- sending ------------------------------------------------------------------------------- */

static void half_close_now(struct http1_exchange *exchange)
{
    if (exchange->is_half_closed || !exchange->is_written)
        return;
    exchange->is_half_closed = true;
    shutdown(h2o_socket_get_fd(exchange->connection->socket), SHUT_WR);
}

static void on_written(h2o_socket_t *socket, const char *error)
{
    struct http1_connection *connection = socket->data;
    struct http1_exchange *exchange = connection->exchange;
    ASSERT(exchange != NULL); /* a connection is parked only after its write */
    if (error != NULL)
        return; /* the engine stopped reading; whether it sent an answer first, reading shows */
    exchange->is_written = true;
    if (exchange->is_half_closing)
        half_close_now(exchange);
    if (exchange->phase == PHASE_HEAD && !exchange->is_step_due && !exchange->is_paused)
        loop_timer_arm(exchange->timer, exchange->client->options.head_timeout_ms);
}

static void send_request(struct http1_exchange *exchange, struct http1_connection *connection)
{
    exchange->connection = connection;
    connection->exchange = exchange;
    exchange->phase = PHASE_HEAD;
    exchange->is_sent = true;
    if (exchange->is_paused) {
        loop_timer_disarm(exchange->timer);
    } else {
        loop_timer_arm(exchange->timer, exchange->client->options.head_timeout_ms);
        h2o_socket_read_start(connection->socket, on_read);
    }
    h2o_iovec_t bytes[2] = {{exchange->request, exchange->request_bytes},
                            {(char *)(uintptr_t)exchange->body.bytes, exchange->body.length}};
    h2o_socket_write(connection->socket, bytes, exchange->body.length > 0 ? 2 : 1, on_written);
}

static void fail_later(struct http1_exchange *exchange, enum status status)
{
    exchange->phase = PHASE_FAILED;
    exchange->failure = status;
    loop_timer_arm(exchange->timer, 0);
}

/* Takes an idle connection, or connects. connections_open already counts the exchange. */
static void attempt(struct http1_exchange *exchange, bool may_reuse)
{
    struct http1_client *client = exchange->client;
    struct http1_connection *connection = client->idle;
    exchange->is_reused = may_reuse && connection != NULL;
    if (exchange->is_reused) {
        client->idle = connection->below;
        client->connections_idle--;
        client->connections_open--; /* the idle connection was counted already */
        send_request(exchange, connection);
        return;
    }
    switch (client->options.unix_path != NULL ? connection_open(client, &connection)
                                              : connection_open_tcp(client, &connection)) {
    case CONNECT_DONE:
        send_request(exchange, connection);
        return;
    case CONNECT_PENDING:
        exchange->phase = PHASE_CONNECT;
        exchange->connection = connection;
        connection->exchange = exchange;
        loop_timer_arm(exchange->timer, client->options.connect_timeout_ms);
        return;
    case CONNECT_LATER:
        exchange->phase = PHASE_CONNECT;
        loop_timer_arm(exchange->timer, exchange->connect_retry_ms);
        if (exchange->connect_retry_ms < CONNECT_RETRY_MS_MAX)
            exchange->connect_retry_ms *= 2;
        return;
    case CONNECT_FAILED:
        fail_later(exchange, STATUS_UNAVAILABLE);
        return;
    case CONNECT_FOREIGN:
        LOG(LOG_ERROR, "upstream_is_foreign");
        fail_later(exchange, STATUS_FORBIDDEN);
        return;
    }
}

static void on_connected(h2o_socket_t *socket, const char *error)
{
    const int on = 1;
    struct http1_connection *connection = socket->data;
    struct http1_exchange *exchange = connection->exchange;
    ASSERT(exchange != NULL && exchange->phase == PHASE_CONNECT);
    if (error != NULL) {
        finish(exchange, STATUS_UNAVAILABLE);
        return;
    }
    if (setsockopt(h2o_socket_get_fd(socket), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        LOG(LOG_DEBUG, "upstream_no_delay", LOG_NUMBER("errno", errno)); /* slower, not wrong */
    send_request(exchange, connection);
}

static void on_timer(void *context)
{
    struct http1_exchange *exchange = context;
    if (exchange->is_step_due) {
        exchange->is_step_due = false;
        if (exchange->phase == PHASE_HEAD)
            loop_timer_arm(exchange->timer, exchange->client->options.head_timeout_ms);
        process(exchange);
        return;
    }
    switch (exchange->phase) {
    case PHASE_CONNECT:
        if (exchange->connection != NULL ||
            loop_now_us(exchange->client->loop) >= exchange->connect_until_us)
            finish(exchange, STATUS_UNAVAILABLE);
        else
            attempt(exchange, !exchange->is_retried);
        return;
    case PHASE_FAILED:
        finish(exchange, exchange->failure);
        return;
    case PHASE_HEAD:
    case PHASE_BODY:
        finish(exchange, STATUS_DEADLINE);
        return;
    }
}

/* --- receiving ----------------------------------------------------------------------------- */

/* What the caller gets of a head. A number that is malformed counts as not given. */
static struct http1_head read_head(const struct http1_response *response)
{
    struct http1_head head = {.code = response->code};
    for (size_t i = 0; i < response->header_count; i++) {
        const struct phr_header *header = &response->headers[i];
        uint64_t number = 0;
        if (http1_response_is(header, "content-type"))
            head.content_type = http1_response_value(header);
        else if (http1_response_is(header, "x-banyan-unconstrained"))
            head.unconstrained = http1_response_value(header);
        else if (http1_response_is(header, "retry-after-ms") &&
                 http1_response_number(header, UINT64_MAX, &number))
            head.retry_after_ms = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
        else if (http1_response_is(header, "x-banyan-protocol") &&
                 http1_response_number(header, UINT64_MAX, &number))
            head.protocol = number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
    }
    return head;
}

/* Parses the head at the front of the input; false when there is nothing more to parse now. */
static bool process_head(struct http1_exchange *exchange)
{
    h2o_socket_t *socket = exchange->connection->socket;
    struct http1_response response;
    struct slice input = {socket->input->bytes, socket->input->size};
    enum http1_response_state state =
        http1_response_parse(&response, input, exchange->head_bytes_before);
    exchange->head_bytes_before = input.length;
    if (state == HTTP1_RESPONSE_PART)
        return false;
    if (state == HTTP1_RESPONSE_FOREIGN || response.code < 100 || response.code > 599 ||
        http1_response_frame(&response) != STATUS_OK) {
        finish(exchange, STATUS_PROTOCOL);
        return false;
    }
    exchange->head_bytes_before = 0;
    if (response.code < 200) {
        h2o_buffer_consume(&socket->input, response.head_bytes);
        return true;
    }
    exchange->phase = PHASE_BODY;
    exchange->is_keep_alive = response.is_keep_alive;
    exchange->framing = response.framing;
    exchange->body_left = response.length;
    exchange->decoder = (struct phr_chunked_decoder){.consume_trailer = 1};
    struct http1_head head = read_head(&response);
    exchange->callbacks.head(exchange->context, &head);
    if (!exchange->is_ended)
        h2o_buffer_consume(&socket->input, response.head_bytes);
    return true;
}

static void process_length(struct http1_exchange *exchange)
{
    h2o_socket_t *socket = exchange->connection->socket;
    size_t length = socket->input->size;
    if (length > exchange->body_left)
        length = (size_t)exchange->body_left;
    exchange->body_left -= length;
    if (length > 0) {
        exchange->callbacks.body(exchange->context, (struct slice){socket->input->bytes, length});
        if (exchange->is_ended)
            return;
        h2o_buffer_consume(&socket->input, length);
    }
    if (exchange->body_left == 0 && !exchange->is_paused)
        finish(exchange, STATUS_OK);
}

/* Decodes all chunks that came and hands them over at once. Bytes after the last chunk stay in the
 * input, which keeps the connection from being used again (may_park). */
static void process_chunked(struct http1_exchange *exchange)
{
    h2o_socket_t *socket = exchange->connection->socket;
    size_t length = socket->input->size;
    ssize_t left = phr_decode_chunked(&exchange->decoder, socket->input->bytes, &length);
    if (left == -1) {
        finish(exchange, STATUS_PROTOCOL);
        return;
    }
    if (length > 0) {
        exchange->callbacks.body(exchange->context, (struct slice){socket->input->bytes, length});
        if (exchange->is_ended)
            return;
    }
    if (left == -2) {
        h2o_buffer_consume(&socket->input, socket->input->size);
        return;
    }
    h2o_buffer_consume(&socket->input, socket->input->size - (size_t)left);
    /* The body is complete, also when the caller pauses now and resumes later. */
    exchange->framing = HTTP1_RESPONSE_LENGTH;
    exchange->body_left = 0;
    if (!exchange->is_paused)
        finish(exchange, STATUS_OK);
}

static void process_close(struct http1_exchange *exchange)
{
    h2o_socket_t *socket = exchange->connection->socket;
    size_t length = socket->input->size;
    exchange->callbacks.body(exchange->context, (struct slice){socket->input->bytes, length});
    if (!exchange->is_ended)
        h2o_buffer_consume(&socket->input, length);
}

static void process_body(struct http1_exchange *exchange)
{
    size_t length = exchange->connection->socket->input->size;
    if (exchange->framing == HTTP1_RESPONSE_LENGTH)
        process_length(exchange);
    else if (exchange->framing == HTTP1_RESPONSE_CHUNKED && length > 0)
        process_chunked(exchange);
    else if (exchange->framing == HTTP1_RESPONSE_CLOSE && length > 0)
        process_close(exchange);
}

static void idle_arm(struct http1_exchange *exchange)
{
    if (exchange->is_standing)
        loop_timer_disarm(exchange->timer);
    else
        loop_timer_arm(exchange->timer, exchange->client->options.idle_timeout_ms);
}

/* Processes the input. The exchange may be freed when this returns. */
static void process(struct http1_exchange *exchange)
{
    exchange->depth++;
    while (!exchange->is_ended && !exchange->is_paused && exchange->phase == PHASE_HEAD) {
        if (!process_head(exchange))
            break;
    }
    if (!exchange->is_ended && !exchange->is_paused && exchange->phase == PHASE_BODY) {
        idle_arm(exchange);
        process_body(exchange);
    }
    exchange->depth--;
    release_if_over(exchange);
}

static void on_read(h2o_socket_t *socket, const char *error)
{
    struct http1_connection *connection = socket->data;
    struct http1_exchange *exchange = connection->exchange;
    if (exchange == NULL) {
        connection_unpark(connection);
        connection_close(connection);
        return;
    }
    if (socket->input->size > 0)
        exchange->has_answer = true;
    exchange->is_step_due = false;
    exchange->depth++;
    process(exchange);
    /* If a callback paused the exchange, the socket reports its end again when reading resumes. */
    if (error != NULL && !exchange->is_ended && !exchange->is_paused)
        lose(exchange, error == h2o_socket_error_closed);
    exchange->depth--;
    release_if_over(exchange);
}

/* --- public functions ---------------------------------------------------------------------- */

/* Fills the address of a client from its options. */
static enum status create_address(struct http1_client *client,
                                  const struct http1_client_options *options)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    if (options->unix_path == NULL) {
        const bool is_six = options->address->sa_family == AF_INET6;
        ASSERT(is_six || options->address->sa_family == AF_INET);
        client->address_length = is_six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        memcpy(&client->address, options->address, client->address_length);
        client->options.address = NULL; /* the copy is in address */
        return STATUS_OK;
    }
    if (strlen(options->unix_path) >= sizeof(path.sun_path))
        FAIL(STATUS_INVALID, "the socket path %s is longer than %zu bytes", options->unix_path,
             sizeof(path.sun_path) - 1);
    memcpy(path.sun_path, options->unix_path, strlen(options->unix_path) + 1);
    memcpy(&client->address, &path, sizeof(path));
    client->address_length = sizeof(path);
    client->options.unix_path = ""; /* the copy is in address */
    return STATUS_OK;
}

enum status http1_client_create(struct http1_client **out,
                                const struct http1_client_options *options)
{
    struct http1_client *client = mem_zalloc(1, sizeof(*client));
    if (client == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a client");
    client->loop = options->loop;
    client->options = *options;
    enum status status = create_address(client, options);
    if (status != STATUS_OK) {
        mem_free(client);
        return status;
    }
    *out = client;
    return STATUS_OK;
}

void http1_client_destroy(struct http1_client *client)
{
    if (client == NULL)
        return;
    while (client->exchanges != NULL)
        finish(client->exchanges, STATUS_CANCELLED);
    while (client->idle != NULL) {
        struct http1_connection *connection = client->idle;
        client->idle = connection->below;
        connection_close(connection);
    }
    ASSERT(client->connections_open == 0);
    mem_free(client);
}

enum status http1_exchange_start(struct http1_client *client, struct slice head, struct slice body,
                                 const struct http1_callbacks *callbacks, void *context,
                                 struct http1_exchange **out)
{
    if (client->idle == NULL && client->connections_open >= client->options.connections_max)
        FAIL(STATUS_BUSY, "all %u connections to the engine are in use",
             client->options.connections_max);
    char tail[48];
    size_t tail_length =
        (size_t)snprintf(tail, sizeof(tail), "\r\ncontent-length: %zu\r\n\r\n", body.length);
    struct slice borrowed = {0};
    if (body.length > HTTP1_CLIENT_COPIED_BYTES) {
        borrowed = body;
        body = (struct slice){0};
    }
    size_t request_bytes = head.length + tail_length + body.length;
    struct http1_exchange *exchange = mem_alloc(sizeof(*exchange) + request_bytes);
    if (exchange == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a request to the engine");
    *exchange = (struct http1_exchange){.client = client,
                                        .callbacks = *callbacks,
                                        .context = context,
                                        .connect_retry_ms = CONNECT_RETRY_MS,
                                        .body = borrowed,
                                        .request_bytes = request_bytes};
    memcpy(exchange->request, head.bytes, head.length);
    memcpy(exchange->request + head.length, tail, tail_length);
    if (body.length > 0)
        memcpy(exchange->request + head.length + tail_length, body.bytes, body.length);
    exchange->timer = loop_timer_create(client->loop, on_timer, exchange);
    exchange->connect_until_us =
        loop_now_us(client->loop) + (int64_t)client->options.connect_timeout_ms * 1000;
    exchange->next = client->exchanges;
    if (exchange->next != NULL)
        exchange->next->previous = exchange;
    client->exchanges = exchange;
    client->connections_open++;
    attempt(exchange, true);
    *out = exchange;
    return STATUS_OK;
}

void http1_exchange_pause(struct http1_exchange *exchange)
{
    if (exchange->is_ended || exchange->is_paused)
        return;
    exchange->is_paused = true;
    exchange->is_step_due = false;
    if (exchange->connection == NULL || exchange->phase == PHASE_CONNECT)
        return; /* connecting goes on, and so does its timer */
    loop_timer_disarm(exchange->timer);
    h2o_socket_read_stop(exchange->connection->socket);
}

void http1_exchange_resume(struct http1_exchange *exchange)
{
    if (exchange->is_ended || !exchange->is_paused)
        return;
    exchange->is_paused = false;
    if (exchange->connection == NULL || exchange->phase == PHASE_CONNECT)
        return;
    h2o_socket_read_start(exchange->connection->socket, on_read);
    /* The loop processes what came before the pause: no callback runs inside this call. */
    exchange->is_step_due = true;
    loop_timer_arm(exchange->timer, 0);
}

void http1_exchange_stand(struct http1_exchange *exchange, bool is_standing)
{
    exchange->is_standing = is_standing;
    bool is_idle = exchange->phase == PHASE_BODY && !exchange->is_paused && !exchange->is_step_due;
    if (!exchange->is_ended && is_idle && exchange->connection != NULL)
        idle_arm(exchange);
}

void http1_exchange_half_close(struct http1_exchange *exchange)
{
    if (exchange->is_ended || exchange->is_half_closing)
        return;
    exchange->is_half_closing = true;
    if (exchange->connection != NULL && exchange->phase == PHASE_CONNECT) {
        connection_close(exchange->connection);
        exchange->connection = NULL;
        exchange->client->connections_open++; /* until the exchange has ended */
    }
    if (exchange->connection != NULL) {
        half_close_now(exchange); /* or when the request has been written */
        return;
    }
    fail_later(exchange, STATUS_CANCELLED); /* nothing was sent, so the engine need not know */
}

void http1_exchange_cancel(struct http1_exchange *exchange)
{
    finish(exchange, STATUS_CANCELLED);
}

bool http1_exchange_is_written(const struct http1_exchange *exchange)
{
    return exchange->is_written && exchange->has_answer;
}

bool http1_exchange_is_sent(const struct http1_exchange *exchange)
{
    return exchange->is_sent;
}
