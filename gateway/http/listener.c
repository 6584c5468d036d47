#include "gateway/http/listener.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "gateway/http/h2_sweep.h"
#include "gateway/http/http_error.h"
#include "gateway/http/request_h2o.h"

struct listener {
    struct request_host host;
    const char *name;
    bool (*admit)(void *context, int descriptor);
    void *admit_context;
    uint32_t connections_max;
    uint32_t arrival_ms_max;
    uint32_t connections_open;
    h2o_linklist_t connections; /* of struct request_connection.link */
    size_t sweep_body_bytes;    /* of requests that are not whole yet, summed by a sweep */
    h2o_socket_t *socket;       /* NULL once draining */
    struct loop_timer *accept_again;
    struct loop_timer *sweep_timer;
    h2o_timeout_t unread_timeout;
    h2o_globalconf_t config;
    h2o_context_t context;
    h2o_accept_ctx_t accept;
};

/* A handler or a filter of libh2o that knows its listener. */
struct listener_handler {
    h2o_handler_t super;
    struct listener *listener;
};
struct listener_filter {
    h2o_filter_t super;
    struct listener *listener;
};
struct listener_error_stream {
    h2o_ostream_t super;
    h2o_iovec_t body;
};

enum { BACKLOG = 4096, ACCEPT_AT_ONCE = 16, ACCEPT_AGAIN_MS = 100, CLOSE_WAIT_MS = 2000 };
enum { SWEEP_MS = 100 };

/* --- libh2o's own errors, in our shape ------------------------------------------------------- */

static void on_error_send(h2o_ostream_t *stream, h2o_req_t *h2o, h2o_iovec_t *bytes, size_t count,
                          h2o_send_state_t state)
{
    (void)bytes; /* libh2o's own text */
    struct listener_error_stream *self = (struct listener_error_stream *)stream;
    h2o_ostream_send_next(stream, h2o, &self->body, count > 0 ? 1 : 0, state);
}

static void on_error_setup(h2o_filter_t *filter, h2o_req_t *h2o, h2o_ostream_t **slot)
{
    const struct listener *listener = ((struct listener_filter *)filter)->listener;
    if (h2o->res.status >= 400 && !request_is_ours(h2o)) {
        struct listener_error_stream *stream =
            (struct listener_error_stream *)h2o_add_ostream(h2o, sizeof(*stream), slot);
        stream->super.do_send = on_error_send;
        slot = &stream->super.next;
        struct buffer body;
        buffer_init(&body, 1024);
        http_error_render_code(h2o->res.status, &body);
        ASSERT(body.status == STATUS_OK);
        stream->body = h2o_strdup(&h2o->pool, body.bytes, body.length);
        buffer_deinit(&body);
        h2o->res.content_length = stream->body.len;
        h2o->res.headers = (h2o_headers_t){NULL, 0, 0};
        h2o_add_header(&h2o->pool, &h2o->res.headers, H2O_TOKEN_CONTENT_TYPE, NULL,
                       H2O_STRLIT("application/json"));
        if (listener->host.makes_request_ids) {
            char *id = h2o_mem_alloc_pool(&h2o->pool, REQUEST_ID_BYTES + 1);
            request_id_make(id);
            h2o_add_header_by_str(&h2o->pool, &h2o->res.headers, H2O_STRLIT("x-request-id"), 0,
                                  NULL, id, REQUEST_ID_BYTES);
        }
    }
    h2o_setup_next_ostream(h2o, slot);
}

static int on_request(h2o_handler_t *handler, h2o_req_t *h2o)
{
    struct listener *listener = ((struct listener_handler *)handler)->listener;
    request_begin(&listener->host, h2o);
    return 0;
}

/* --- connections --------------------------------------------------------------------------- */

static void on_connection_closed(void *data)
{
    struct request_connection *connection = data;
    h2o_linklist_unlink(&connection->link);
    connection->listener->connections_open--;
    mem_free(connection);
}

static void kill_connection(struct request_connection *connection)
{
    connection->is_dead = true;
    shutdown(connection->descriptor, SHUT_RDWR);
}

/* HTTP/2 that no handler sees: streams opened and reset before their request was whole, and bodies
 * that do not end. Without it one connection without a key could make libh2o hold 100 bodies. */
static void sweep_one(void *context, const struct h2_sweep_view *view)
{
    struct listener *listener = context;
    struct request_connection *connection = view->socket->on_close.data;
    uint64_t seen = (uint64_t)view->streams_open + connection->streams_started;
    uint64_t never = view->streams_opened > seen ? view->streams_opened - seen : 0;
    bool is_flood = view->streams_opened >= LIMIT_STREAMS_JUDGED &&
                    2 * (never + connection->streams_early) > view->streams_opened;
    bool is_heap = view->body_bytes > 2 * listener->host.body_bytes_max;
    bool is_late = view->oldest_body_ms > listener->arrival_ms_max;
    listener->sweep_body_bytes += view->body_bytes;
    bool is_over_all = listener->sweep_body_bytes > LIMIT_UNFINISHED_BYTES && view->body_bytes > 0;
    if (connection->is_dead || !(is_flood || is_heap || is_late || is_over_all))
        return;
    listener->sweep_body_bytes -= view->body_bytes;
    LOG(LOG_WARN, "connection_killed", LOG_TEXT("listener", listener->name),
        LOG_TEXT("reason", is_flood  ? "resets"
                           : is_late ? "slow_body"
                                     : "unfinished_bodies"),
        LOG_NUMBER("streams", view->streams_opened), LOG_NUMBER("body_bytes", view->body_bytes));
    kill_connection(connection);
}

/* HTTP/1: what a connection sent of a request that has not begun; bounded in all, not each (the
 * body limit bounds that). */
static void sweep_http1(struct listener *listener)
{
    h2o_linklist_t *anchor = &listener->connections;
    for (h2o_linklist_t *node = anchor->next; node != anchor; node = node->next) {
        struct request_connection *connection =
            H2O_STRUCT_FROM_MEMBER(struct request_connection, link, node);
        size_t bytes = connection->socket->input->size;
        if (connection->request != NULL || connection->is_dead)
            continue;
        listener->sweep_body_bytes += bytes;
        if (listener->sweep_body_bytes <= LIMIT_UNFINISHED_BYTES || bytes <= LIMIT_HEAD_BYTES)
            continue;
        listener->sweep_body_bytes -= bytes;
        LOG(LOG_WARN, "connection_killed", LOG_TEXT("listener", listener->name),
            LOG_TEXT("reason", "unfinished_bodies"), LOG_NUMBER("body_bytes", bytes));
        kill_connection(connection);
    }
}

static void on_sweep(void *context)
{
    struct listener *listener = context;
    listener->sweep_body_bytes = 0;
    h2_sweep_look(&listener->context, sweep_one, listener);
    sweep_http1(listener);
    if (listener->connections_open > 0)
        loop_timer_arm(listener->sweep_timer, SWEEP_MS);
}

static void accept_one(struct listener *listener, h2o_socket_t *socket)
{
    struct request_connection *connection = NULL;
    bool is_admitted = listener->admit == NULL ||
                       listener->admit(listener->admit_context, h2o_socket_get_fd(socket));
    if (is_admitted && listener->connections_open < listener->connections_max)
        connection = mem_zalloc(1, sizeof(*connection));
    if (connection == NULL) {
        h2o_socket_close(socket);
        return;
    }
    connection->listener = listener;
    connection->descriptor = h2o_socket_get_fd(socket);
    h2o_linklist_insert(&listener->connections, &connection->link);
    connection->socket = socket;
    if (listener->connections_open++ == 0)
        loop_timer_arm(listener->sweep_timer, SWEEP_MS);
    socket->on_close.cb = on_connection_closed;
    socket->on_close.data = connection;
    h2o_accept(&listener->accept, socket);
}

static void on_acceptable(h2o_socket_t *socket, const char *error)
{
    struct listener *listener = socket->data;
    if (error != NULL)
        return;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        errno = 0;
        h2o_socket_t *accepted = h2o_evloop_socket_accept(socket);
        if (accepted != NULL) {
            accept_one(listener, accepted);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* The waiting connection would wake the loop without end: look away for a moment. */
            LOG(LOG_WARN, "accept_failed", LOG_TEXT("listener", listener->name),
                LOG_NUMBER("errno", errno));
            h2o_socket_read_stop(socket);
            loop_timer_arm(listener->accept_again, ACCEPT_AGAIN_MS);
        }
        return;
    }
}

static void on_accept_again(void *context)
{
    struct listener *listener = context;
    if (listener->socket != NULL)
        h2o_socket_read_start(listener->socket, on_acceptable);
}

/* --- opening ------------------------------------------------------------------------------- */

static void open_path(struct listener *listener, h2o_pathconf_t *path)
{
    path->error_log.emit_request_errors = 0;
    struct listener_filter *filter =
        (struct listener_filter *)h2o_create_filter(path, sizeof(*filter));
    filter->super.on_setup_ostream = on_error_setup;
    filter->listener = listener;
    struct listener_handler *handler =
        (struct listener_handler *)h2o_create_handler(path, sizeof(*handler));
    handler->super.on_req = on_request;
    handler->listener = listener;
}

static void open_h2o(struct listener *listener, const struct listener_options *options)
{
    h2o_config_init(&listener->config);
    listener->config.server_name = h2o_iovec_init("", 0);
    /* One more than the limit, so that n + 1 reaches our own answer; beyond that h2o refuses. */
    listener->config.max_request_entity_size = options->body_bytes_max + 1;
    listener->config.handshake_timeout = LIMIT_HANDSHAKE_MS;
    listener->config.http1.req_timeout = listener->arrival_ms_max;
    listener->config.http1.upgrade_to_http2 = 0;
    listener->config.http2.idle_timeout = listener->arrival_ms_max;
    h2o_hostconf_t *host =
        h2o_config_register_host(&listener->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    open_path(listener, h2o_config_register_path(host, "/", 0));
    open_path(listener, &host->fallback_path);
    h2o_context_init(&listener->context, loop_h2o(options->loop), &listener->config);
    listener->accept.ctx = &listener->context;
    listener->accept.hosts = listener->config.hosts;
    if (options->tls != NULL) {
        listener->accept.ssl_ctx = tls_context_ssl(options->tls);
        h2o_ssl_register_alpn_protocols(listener->accept.ssl_ctx, h2o_alpn_protocols);
    }
}

enum status listener_open(struct listener **out, const struct listener_options *options)
{
    struct listener *listener = mem_zalloc(1, sizeof(*listener));
    if (listener == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a listener");
    listener->host = (struct request_host){
        .loop = options->loop,
        .handler = options->handler,
        .context = options->context,
        .body_bytes_max = options->body_bytes_max,
        .makes_request_ids = options->makes_request_ids,
        .answer_header = options->answer_header,
        .unread_timeout = &listener->unread_timeout,
    };
    h2o_timeout_init(loop_h2o(options->loop), &listener->unread_timeout,
                     options->unread_ms_max != 0 ? options->unread_ms_max : LIMIT_UNREAD_MS);
    h2o_linklist_init_anchor(&listener->host.requests);
    h2o_linklist_init_anchor(&listener->connections);
    listener->name = options->name;
    listener->admit = options->admit;
    listener->admit_context = options->admit_context;
    listener->arrival_ms_max =
        options->arrival_ms_max != 0 ? options->arrival_ms_max : LIMIT_ARRIVAL_MS;
    listener->connections_max =
        options->connections_max < LIMIT_CONNECTIONS ? options->connections_max : LIMIT_CONNECTIONS;
    listener->accept_again = loop_timer_create(options->loop, on_accept_again, listener);
    listener->sweep_timer = loop_timer_create(options->loop, on_sweep, listener);
    open_h2o(listener, options);
    listener->socket = h2o_evloop_socket_create(loop_h2o(options->loop), options->descriptor,
                                                H2O_SOCKET_FLAG_DONT_READ);
    listener->socket->data = listener;
    h2o_socket_read_start(listener->socket, on_acceptable);
    *out = listener;
    return STATUS_OK;
}

/* --- closing ------------------------------------------------------------------------------- */

void listener_drain(struct listener *listener)
{
    if (listener->socket == NULL)
        return;
    loop_timer_disarm(listener->accept_again);
    h2o_socket_read_stop(listener->socket);
    h2o_socket_close(listener->socket);
    listener->socket = NULL;
    h2o_context_request_shutdown(&listener->context);
    h2o_linklist_t *anchor = &listener->host.requests;
    for (h2o_linklist_t *node = anchor->next; node != anchor; node = node->next) {
        struct http_request *request = H2O_STRUCT_FROM_MEMBER(struct http_request, link, node);
        request->h2o->http1_is_persistent = 0; /* "connection: close" if the head is still to go */
    }
}

uint32_t listener_requests_running(const struct listener *listener)
{
    return listener->host.requests_running;
}

uint32_t listener_connections(const struct listener *listener)
{
    return listener->connections_open;
}

static void close_connections(struct listener *listener)
{
    h2o_linklist_t *anchor = &listener->connections;
    h2o_linklist_t *next;
    for (h2o_linklist_t *node = anchor->next; node != anchor; node = next) {
        next = node->next;
        struct request_connection *connection =
            H2O_STRUCT_FROM_MEMBER(struct request_connection, link, node);
        shutdown(connection->descriptor, SHUT_RDWR);
        if (connection->request != NULL)
            request_lose(connection->request);
    }
}

void listener_close(struct listener *listener)
{
    if (listener == NULL)
        return;
    listener_drain(listener);
    struct loop *loop = listener->host.loop;
    close_connections(listener);
    int64_t end_us = loop_now_us(loop) + (int64_t)CLOSE_WAIT_MS * 1000;
    while (listener->connections_open > 0 && loop_now_us(loop) < end_us)
        loop_h2o_turn(loop, 10);
    loop_timer_destroy(listener->accept_again);
    loop_timer_destroy(listener->sweep_timer);
    if (listener->connections_open > 0) {
        /* libh2o cannot be made to let go; what is left is given up rather than freed under it. */
        LOG(LOG_WARN, "connections_left", LOG_TEXT("listener", listener->name),
            LOG_NUMBER("connections", listener->connections_open));
        return;
    }
    h2o_timeout_unlink(&listener->context.http2._graceful_shutdown_timeout);
    /* 2.2.5 forgets the queue's memory in h2o_context_dispose. */
    h2o_timeout_dispose(loop_h2o(loop), &listener->unread_timeout);
    h2o_multithread_queue_t *queue = listener->context.queue;
    h2o_context_dispose(&listener->context);
    free(queue);
    h2o_config_dispose(&listener->config);
    mem_free(listener);
}

/* --- binding ------------------------------------------------------------------------------- */

static enum status bind_tcp_split(const char *address, char *host, size_t host_max, char *port,
                                  size_t port_max)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon[1] == '\0')
        FAIL(STATUS_INVALID, "the address %s has no port", address);
    const char *begin = address;
    const char *end = colon;
    if (*begin == '[' && end > begin && end[-1] == ']')
        begin++, end--;
    if ((size_t)(end - begin) >= host_max || strlen(colon + 1) >= port_max)
        FAIL(STATUS_INVALID, "the address %s is too long", address);
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    memcpy(port, colon + 1, strlen(colon + 1) + 1);
    return STATUS_OK;
}

static enum status bind_tcp_listen(int *descriptor, const char *address,
                                   const struct addrinfo *info)
{
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        FAIL(STATUS_IO, "no socket for %s (%s)", address, strerror(errno));
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int cause = errno;
        close(fd);
        if (cause == EADDRINUSE)
            FAIL(STATUS_EXISTS, "the address %s is in use", address);
        FAIL(STATUS_IO, "cannot listen on %s (%s)", address, strerror(cause));
    }
    *descriptor = fd;
    return STATUS_OK;
}

enum status listener_bind_tcp(int *descriptor, const char *address, char *bound, size_t bound_max)
{
    char host[256];
    char port[16];
    TRY(bind_tcp_split(address, host, sizeof(host), port, sizeof(port)));
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *info = NULL;
    if (getaddrinfo(host[0] != '\0' ? host : NULL, port, &hints, &info) != 0)
        FAIL(STATUS_INVALID, "%s is not an address to listen on", address);
    enum status status = bind_tcp_listen(descriptor, address, info);
    freeaddrinfo(info);
    TRY(status);
    struct sockaddr_storage name;
    socklen_t length = sizeof(name);
    char name_host[64];
    char name_port[16];
    if (bound == NULL)
        return STATUS_OK;
    if (getsockname(*descriptor, (struct sockaddr *)&name, &length) != 0 ||
        getnameinfo((struct sockaddr *)&name, length, name_host, sizeof(name_host), name_port,
                    sizeof(name_port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        close(*descriptor);
        FAIL(STATUS_IO, "the address of %s cannot be read back", address);
    }
    bool is_v6 = name.ss_family == AF_INET6;
    snprintf(bound, bound_max, "%s%s%s:%s", is_v6 ? "[" : "", name_host, is_v6 ? "]" : "",
             name_port);
    return STATUS_OK;
}

/* Removes a socket that nobody answers on; EXISTS when somebody does, or when it is no socket. */
static enum status bind_unix_clear(const char *path, const struct sockaddr_un *name)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return STATUS_OK;
    if (!S_ISSOCK(info.st_mode))
        FAIL(STATUS_EXISTS, "%s exists and is not a socket", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        FAIL(STATUS_IO, "no socket (%s)", strerror(errno));
    int result = connect(fd, (const struct sockaddr *)name, sizeof(*name));
    int cause = errno;
    close(fd);
    if (result == 0 || cause == EAGAIN)
        FAIL(STATUS_EXISTS, "somebody listens on %s already", path);
    if (unlink(path) != 0)
        FAIL(STATUS_IO, "cannot remove the old socket %s (%s)", path, strerror(errno));
    return STATUS_OK;
}

enum status listener_bind_unix(int *descriptor, const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(name.sun_path))
        FAIL(STATUS_INVALID, "the socket path %s is longer than %zu bytes", path,
             sizeof(name.sun_path) - 1);
    memcpy(name.sun_path, path, strlen(path) + 1);
    TRY(bind_unix_clear(path, &name));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        FAIL(STATUS_IO, "no socket (%s)", strerror(errno));
    /* The mode is set before listen: nobody can connect in between. */
    if (bind(fd, (const struct sockaddr *)&name, sizeof(name)) != 0 || chmod(path, 0600) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int cause = errno;
        close(fd);
        if (cause == EADDRINUSE)
            FAIL(STATUS_EXISTS, "the socket %s is in use", path);
        FAIL(STATUS_IO, "cannot listen on %s (%s)", path, strerror(cause));
    }
    *descriptor = fd;
    return STATUS_OK;
}
