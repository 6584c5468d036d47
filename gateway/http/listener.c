#include "gateway/http/listener.h"
#include "gateway/http/arrival.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "gateway/http/accept_gate.h"
#include "gateway/http/address_table.h"
#include "gateway/http/door_metrics.h"
#include "gateway/http/h2_arrival.h"
#include "gateway/http/h2_sweep.h"
#include "gateway/http/h2_turns.h"
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
    h2o_linklist_t strangers;   /* of struct request_connection.stranger, oldest first */
    h2o_linklist_t handshakes;  /* of struct request_connection.handshake, oldest first */
    uint32_t handshakes_open;
    struct arrival arrival; /* requests that are not whole yet */
    struct address_table *addresses;
    struct accept_gate gate;
    struct door_metrics door;
    /* Limits log lines that a stranger could cause without end. Every event is counted. */
    struct log_share kills[DOOR_KILL_COUNT];
    struct log_share refusals[TLS_CLIENT_REASONS];
    struct tls_context *tls; /* NULL = plain */
    h2o_socket_t *socket;    /* NULL once draining */
    struct loop_timer *accept_again;
    struct loop_timer *sweep_timer;
    h2o_timeout_t unread_timeout;
    h2o_timeout_t linger_timeout;
    h2o_globalconf_t config;
    h2o_context_t context;
    h2o_accept_ctx_t accept;
};

/* A handler and a filter of libh2o with a pointer to the listener. */
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

enum { BACKLOG = 4096, ACCEPT_AT_ONCE = 16, ACCEPT_AGAIN_MS = 100 };
/* How long to wait for connections whose sockets are shut down. It takes moments, unless the
 * machine is overloaded; connections that are left then cannot be closed at all. */
enum { CLOSE_WAIT_MS = 20000 };
enum { SWEEP_MS = 100 };

/* --- libh2o's own errors, in the form of ours ------------------------------------------------ */

static void on_error_send(h2o_ostream_t *stream, h2o_req_t *h2o, h2o_iovec_t *bytes, size_t count,
                          h2o_send_state_t state)
{
    (void)bytes; /* libh2o's text */
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
        request_add_cors(listener->host.cors, h2o);
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

static void end_handshake(struct request_connection *connection)
{
    if (!h2o_linklist_is_linked(&connection->handshake))
        return;
    h2o_linklist_unlink(&connection->handshake);
    connection->listener->handshakes_open--;
    tls_context_drop(connection->handshake_tls);
}

/* Or it is over: no newcomer takes its place. */
static void strangers_leave(struct request_connection *connection)
{
    if (h2o_linklist_is_linked(&connection->stranger))
        h2o_linklist_unlink(&connection->stranger);
}

static void on_proved(struct request_connection *connection)
{
    if (!h2o_linklist_is_linked(&connection->stranger))
        return;
    strangers_leave(connection);
    address_table_prove(connection->listener->addresses, connection->address_row);
}

static void on_connection_closed(void *data)
{
    struct request_connection *connection = data;
    struct listener *listener = connection->listener;
    end_handshake(connection);
    arrival_end(connection);
    strangers_leave(connection);
    h2o_linklist_unlink(&connection->link);
    listener->connections_open--;
    tls_client_close(connection->client);
    address_table_leave(listener->addresses, connection->address_row,
                        loop_now_us(listener->host.loop));
    mem_free(connection);
}

/* libh2o has no public function to close a connection; its reader sees the end and closes it. */
static void kill_connection(struct request_connection *connection, enum door_kill why)
{
    connection->is_dead = true;
    shutdown(connection->descriptor, SHUT_RDWR);
    door_metrics_killed(&connection->listener->door, why);
}

static void kill_for(struct request_connection *connection, enum door_kill why, size_t streams,
                     size_t body_bytes)
{
    uint32_t unsaid;
    if (log_share_take(&connection->listener->kills[why], clock_mono_us(clock_system()), &unsaid))
        LOG(LOG_WARN, "connection_killed", LOG_TEXT("listener", connection->listener->name),
            LOG_TEXT("reason", door_metrics_kill_name(why)), LOG_NUMBER("streams", streams),
            LOG_NUMBER("body_bytes", body_bytes), LOG_NUMBER("unsaid", unsaid));
    kill_connection(connection, why);
}

static void on_flooded(struct request_connection *connection)
{
    kill_for(connection, DOOR_KILLED_RESETS, connection->streams_started, 0);
}

/* Ends streams of strangers if a known owner shares the connection (a proxy), else the
 * connection. */
static void on_gives_way(struct request_connection *connection, size_t bytes)
{
    bool is_h2 = connection->arriving.is_http2 && !connection->is_dead &&
                 h2_arrival_has(connection); /* its socket may still be saying goodbye */
    if (is_h2 && h2_arrival_end_streams(connection->socket->data, INT64_MAX, true) > 0)
        return;
    if (!connection->is_dead)
        kill_for(connection, DOOR_KILLED_UNFINISHED_BODIES, 0, bytes);
}

/* Ends a connection (or streams of it) for what no handler sees: streams that were opened and reset
 * before their request was whole; bodies that do not end, of which libh2o would keep 100 for a
 * connection without a key; and answers to control frames that the client does not read. */
static void sweep_one(void *context, const struct h2_sweep_view *view)
{
    struct listener *listener = context;
    struct request_connection *connection = view->socket->on_close.data;
    if (connection->is_dead)
        return;
    uint32_t known =
        connection->streams_started + connection->streams_vanished + view->streams_waiting;
    uint32_t vanished = view->streams_opened > known ? view->streams_opened - known : 0;
    connection->streams_vanished += vanished;
    bool is_flood = request_connection_judge(connection, vanished, vanished);
    bool is_control = view->unsent_bytes > LIMIT_UNSENT_BYTES;
    /* Each read restarts libh2o's idle timer, so a connection without a stream is judged by its
     * age. */
    int64_t age_us = loop_now_us(listener->host.loop) - connection->accepted_us;
    bool is_late = view->oldest_body_ms > listener->arrival_ms_max ||
                   (view->streams_opened == 0 && age_us > listener->arrival_ms_max * INT64_C(1000));
    bool is_heap = view->body_bytes > 2 * listener->host.body_bytes_max;
    if (!is_flood && !is_control && (is_late || is_heap) &&
        h2_arrival_end_streams(connection->socket->data, listener->arrival_ms_max, is_heap) > 0)
        return;
    if (!(is_flood || is_control || is_late || is_heap)) {
        arrival_book(connection, view->held_bytes);
        return;
    }
    kill_for(connection,
             is_flood     ? DOOR_KILLED_RESETS
             : is_control ? DOOR_KILLED_CONTROL_FRAMES
             : is_late    ? DOOR_KILLED_SLOW_BODY
                          : DOOR_KILLED_UNFINISHED_BODIES,
             view->streams_opened, view->body_bytes);
}

static void on_turn(void *context)
{
    struct listener *listener = context;
    h2_turns_go_on(&listener->arrival);
}

/* Books the memory of HTTP/1 connections. It is needed for sockets without TLS, which have no
 * hook. */
static void sweep_http1(struct listener *listener)
{
    h2o_linklist_t *anchor = &listener->connections;
    for (h2o_linklist_t *node = anchor->next; node != anchor; node = node->next) {
        struct request_connection *connection =
            H2O_STRUCT_FROM_MEMBER(struct request_connection, link, node);
        if (!connection->arriving.is_http2 && !connection->is_dead &&
            !h2o_linklist_is_linked(&connection->handshake))
            arrival_h1_book(connection);
    }
}

/* Ends the oldest handshake, in whatever state it is. */
static void kill_handshake(struct listener *listener, enum door_kill why)
{
    struct request_connection *connection =
        H2O_STRUCT_FROM_MEMBER(struct request_connection, handshake, listener->handshakes.next);
    door_metrics_killed(&listener->door, why);
    h2o_socket_close(connection->socket);
}

static void sweep_handshakes(struct listener *listener)
{
    int64_t late_us = loop_now_us(listener->host.loop) - LIMIT_HANDSHAKE_MS * INT64_C(1000);
    while (listener->handshakes_open > 0) {
        const struct request_connection *oldest =
            H2O_STRUCT_FROM_MEMBER(struct request_connection, handshake, listener->handshakes.next);
        if (oldest->accepted_us > late_us)
            return;
        kill_handshake(listener, DOOR_KILLED_HANDSHAKE_SLOW);
    }
}

static void on_sweep(void *context)
{
    struct listener *listener = context;
    sweep_handshakes(listener);
    h2_sweep_look(&listener->context, sweep_one, listener);
    sweep_http1(listener);
    door_metrics_set(&listener->door, listener->connections_open,
                     listener->arrival.strangers.bytes + listener->arrival.known.bytes);
    if (listener->connections_open > 0)
        loop_timer_arm(listener->sweep_timer, SWEEP_MS);
}

/* --- certificates of clients --------------------------------------------------------------- */

/* Called during the handshake. The client has not proved yet that it has the private key; without
 * the proof the handshake fails. */
static void on_client_shown(void *transport, struct tls_client *client)
{
    h2o_socket_t *socket = transport; /* h2o_compat.h */
    struct request_connection *connection = socket->on_close.data;
    ASSERT(connection->socket == socket);
    ASSERT(connection->client == NULL);
    connection->client = client;
}

static enum tls_client_reason client_judge(struct request_connection *connection)
{
    return tls_context_judge(connection->listener->tls, connection->client,
                             clock_wall_us(clock_system()) / 1000000);
}

static void client_told(struct request_connection *connection, enum tls_client_reason reason)
{
    struct listener *listener = connection->listener;
    uint32_t unsaid;
    door_metrics_client(&listener->door, reason);
    if (reason != TLS_CLIENT_FINE &&
        log_share_take(&listener->refusals[reason], clock_mono_us(clock_system()), &unsaid))
        LOG(LOG_WARN, "client_certificate_refused", LOG_TEXT("listener", listener->name),
            LOG_TEXT("reason", tls_client_word(reason)), LOG_NUMBER("unsaid", unsaid));
}

/* Called for each request: since the handshake the certificate may have been revoked or have
 * expired. */
static const char *on_client_fault(struct request_connection *connection)
{
    bool was_fine =
        connection->client == NULL || tls_client_reason(connection->client) == TLS_CLIENT_FINE;
    enum tls_client_reason reason = client_judge(connection);
    if (reason == TLS_CLIENT_FINE)
        return NULL;
    if (was_fine && connection->client != NULL)
        client_told(connection, reason);
    return tls_client_sentence(reason);
}

/* --- accepting ----------------------------------------------------------------------------- */

static void on_handshake(h2o_socket_t *socket, const char *error)
{
    struct request_connection *connection = socket->on_close.data;
    struct listener *listener = connection->listener;
    end_handshake(connection);
    if (error != NULL)
        door_metrics_handshake_failed(&listener->door);
    if (error != NULL || listener->socket == NULL) { /* it failed, or the listener drains */
        h2o_socket_close(socket);
        return;
    }
    if (listener->host.client_fault != NULL &&
        (connection->client != NULL || listener->host.wants_client))
        client_told(connection, client_judge(connection));
    h2o_iovec_t protocol = h2o_socket_ssl_get_selected_protocol(socket);
    if (h2o_memis(protocol.base, protocol.len, H2O_STRLIT("h2"))) {
        h2_arrival_accept(connection, &listener->accept);
        return;
    }
    arrival_h1_begin(connection);
    h2o_http1_accept(&listener->accept, socket, connection->connected_at);
}

static void accept_begin(struct request_connection *connection)
{
    struct listener *listener = connection->listener;
    h2o_socket_t *socket = connection->socket;
    connection->connected_at = *h2o_get_timestamp(&listener->context, NULL, NULL);
    if (listener->tls == NULL) {
        h2o_http1_accept(&listener->accept, socket, connection->connected_at);
        return;
    }
    if (listener->handshakes_open >= LIMIT_HANDSHAKES)
        kill_handshake(listener, DOOR_KILLED_HANDSHAKES_MANY);
    h2o_linklist_insert(&listener->handshakes, &connection->handshake);
    listener->handshakes_open++;
    connection->handshake_tls = tls_context_hold(listener->tls);
    h2o_socket_ssl_handshake(socket, connection->handshake_tls, NULL, on_handshake);
}

/* Keeps the kernel's buffers small: the send buffer, so that a reader that stops is noticed soon,
 * and the receive buffer, so that one read brings little and each connection gets its turn. */
static void accept_tune(int descriptor)
{
    int on = 1;
    int unsent_bytes = LIMIT_KERNEL_UNSENT_BYTES;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof(unsent_bytes));
    int unread_bytes = LIMIT_KERNEL_UNREAD_BYTES;
    setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &unread_bytes, sizeof(unread_bytes));
}

/* The oldest connection on which nobody is authenticated gives way to a newcomer: of that address,
 * or with NULL of any. So strangers cannot hold the places that somebody authenticated wants. A
 * newcomer has as long to say who it is as as many others take to come. */
static bool accept_takes_place(struct listener *listener, const union request_peer *peer,
                               int64_t now_us)
{
    uint64_t own[2] = {0}, key[2];
    if (peer != NULL)
        (void)address_table_key(&peer->any, own);
    h2o_linklist_t *anchor = &listener->strangers;
    for (h2o_linklist_t *node = anchor->next; node != anchor; node = node->next) {
        struct request_connection *oldest =
            H2O_STRUCT_FROM_MEMBER(struct request_connection, stranger, node);
        (void)address_table_key(&oldest->peer.any, key);
        if (peer != NULL && memcmp(own, key, sizeof key) != 0)
            continue;
        strangers_leave(oldest);
        address_table_leave(listener->addresses, oldest->address_row, now_us);
        oldest->address_row = ADDRESS_NONE;
        if (!h2o_linklist_is_linked(&oldest->handshake)) {
            kill_connection(oldest, DOOR_KILLED_STRANGER);
            return true;
        }
        door_metrics_killed(&listener->door, DOOR_KILLED_STRANGER);
        h2o_socket_close(oldest->socket);
        return true;
    }
    return false;
}

/* Those that give way close within the loop's turn: some more are open until then. */
static bool accept_has_place(struct listener *listener, int64_t now_us)
{
    return listener->connections_open < listener->connections_max ||
           (listener->connections_open < listener->connections_max + ACCEPT_AT_ONCE &&
            accept_takes_place(listener, NULL, now_us));
}

static bool accept_admits(struct listener *listener, const union request_peer *peer, int64_t now_us,
                          uint32_t *address_row)
{
    *address_row = ADDRESS_NONE;
    if (!accept_has_place(listener, now_us)) {
        door_metrics_refused(&listener->door, DOOR_REFUSED_FULL);
        return false;
    }
    enum address_verdict verdict =
        address_table_enter(listener->addresses, &peer->any, now_us, address_row);
    if (verdict == ADDRESS_HAS_TOO_MANY && accept_takes_place(listener, peer, now_us))
        verdict = address_table_enter(listener->addresses, &peer->any, now_us, address_row);
    if (verdict != ADDRESS_ADMITTED)
        door_metrics_refused(&listener->door, verdict == ADDRESS_HAS_TOO_MANY
                                                  ? DOOR_REFUSED_ADDRESS_CONNECTIONS
                                                  : DOOR_REFUSED_ADDRESS_RATE);
    return verdict == ADDRESS_ADMITTED;
}

/* Makes a connection of the descriptor, or closes it. This is before TLS, so a refusal costs two
 * system calls. */
static void accept_one(struct listener *listener, int descriptor, const union request_peer *peer,
                       int64_t now_us)
{
    uint32_t address_row = ADDRESS_NONE;
    struct request_connection *connection = NULL;
    bool is_admitted =
        listener->admit == NULL || listener->admit(listener->admit_context, descriptor);
    if (is_admitted && accept_admits(listener, peer, now_us, &address_row))
        connection = mem_zalloc(1, sizeof(*connection));
    if (connection == NULL) {
        address_table_leave(listener->addresses, address_row, now_us);
        close(descriptor);
        return;
    }
    accept_gate_took(&listener->gate, descriptor); /* a refused connection has no handshake */
    if (peer->any.sa_family != AF_UNIX)
        accept_tune(descriptor);
    h2o_socket_t *socket = h2o_evloop_socket_create(loop_h2o(listener->host.loop), descriptor,
                                                    H2O_SOCKET_FLAG_IS_ACCEPTED_CONNECTION);
    *connection = (struct request_connection){.listener = listener,
                                              .socket = socket,
                                              .peer = *peer,
                                              .address_row = address_row,
                                              .accepted_us = now_us,
                                              .descriptor = descriptor};
    arrival_begin(connection, &listener->arrival);
    h2o_linklist_insert(&listener->connections, &connection->link);
    if (listener->arrival.claim != NULL)
        h2o_linklist_insert(&listener->strangers, &connection->stranger);
    if (listener->connections_open++ == 0)
        loop_timer_arm(listener->sweep_timer, SWEEP_MS);
    socket->on_close.cb = on_connection_closed;
    socket->on_close.data = connection;
    accept_begin(connection);
}

/* Stops looking at the listening socket for a while: connections that wait would wake the loop
 * without end. */
static void accept_pause(struct listener *listener, uint32_t wait_ms)
{
    h2o_socket_read_stop(listener->socket);
    loop_timer_arm(listener->accept_again, wait_ms);
}

/* False when there is nothing more to accept for now. */
static bool accept_next(struct listener *listener)
{
    int64_t now_us = loop_now_us(listener->host.loop);
    uint32_t wait_ms;
    enum accept_pause pause = accept_gate_ask(&listener->gate, now_us, &wait_ms);
    if (pause != ACCEPT_NOW) {
        door_metrics_paused(&listener->door, pause == ACCEPT_HANDSHAKES ? DOOR_PAUSED_HANDSHAKES
                                                                        : DOOR_PAUSED_DESCRIPTORS);
        accept_pause(listener, wait_ms);
        return false;
    }
    union request_peer peer = {.any.sa_family = AF_UNIX};
    socklen_t length = sizeof(peer);
    int descriptor = accept4(h2o_socket_get_fd(listener->socket), &peer.any, &length,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
        accept_one(listener, descriptor, &peer, now_us);
        return true;
    }
    if (errno == ECONNABORTED || errno == EINTR)
        return true;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        LOG(LOG_WARN, "accept_failed", LOG_TEXT("listener", listener->name),
            LOG_NUMBER("errno", errno));
        door_metrics_paused(&listener->door, DOOR_PAUSED_DESCRIPTORS);
        accept_pause(listener, ACCEPT_AGAIN_MS);
    }
    return false;
}

static void on_acceptable(h2o_socket_t *socket, const char *error)
{
    struct listener *listener = socket->data;
    if (error != NULL)
        return;
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        if (!accept_next(listener))
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
    /* One byte more than the limit, so that a body of that length gets our answer; libh2o refuses
     * longer ones. */
    listener->config.max_request_entity_size = options->body_bytes_max + 1;
    listener->config.http1.req_timeout = listener->arrival_ms_max;
    listener->config.http1.upgrade_to_http2 = 0;
    listener->config.http2.idle_timeout = listener->arrival_ms_max;
    /* Turned off: it would change TCP_NOTSENT_LOWAT, which accept_tune sets. */
    listener->config.http2.latency_optimization.min_rtt = UINT32_MAX;
    h2o_hostconf_t *host =
        h2o_config_register_host(&listener->config, h2o_iovec_init(H2O_STRLIT("default")), 65535);
    open_path(listener, h2o_config_register_path(host, "/", 0));
    open_path(listener, &host->fallback_path);
    h2o_context_init(&listener->context, loop_h2o(options->loop), &listener->config);
    listener->accept.ctx = &listener->context;
    listener->accept.hosts = listener->config.hosts;
    listener->tls = options->tls;
}

/* Makes the limits. The table has rows for every possible connection, and for as many addresses
 * whose connections have ended. */
static enum status open_door(struct listener *listener, const struct listener_options *options)
{
    struct address_table_limits limits = {.connections = options->connections_per_address,
                                          .connects_a_second = options->connects_per_address_s,
                                          .rows = 2 * listener->connections_max};
    TRY(address_table_create(&listener->addresses, &limits));
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_NOFILE, &files);
    accept_gate_init(&listener->gate, options->handshakes_s, files.rlim_cur,
                     (uint32_t)accept_gate_lowest_free(), loop_now_us(options->loop));
    door_metrics_init(&listener->door, options->metrics, options->name,
                      listener->host.client_fault != NULL);
    return STATUS_OK;
}

static void open_arrival(struct listener *listener, const struct listener_options *options)
{
    struct arrival *arrival = &listener->arrival;
    *arrival = (struct arrival){.claim = options->claim,
                                .claim_context = options->claim_context,
                                .body_bytes_max = options->body_bytes_max,
                                .wants_client = listener->host.wants_client,
                                .door = &listener->door,
                                .client_fault = listener->host.client_fault,
                                .kill = on_gives_way,
                                .book_h2 = h2_arrival_book,
                                .prove = on_proved,
                                .render = http_error_render_code};
    door_share_init(
        &arrival->strangers,
        options->unfinished_bytes_max != 0 ? options->unfinished_bytes_max : LIMIT_UNFINISHED_BYTES,
        options->unfinished_address_bytes_max != 0 ? options->unfinished_address_bytes_max
                                                   : SIZE_MAX);
    door_share_init(&arrival->known, options->known_bytes_max, SIZE_MAX);
}

enum status listener_open(struct listener **out, const struct listener_options *options)
{
    struct listener *listener = mem_zalloc(1, sizeof(*listener));
    if (listener == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a listener");
    listener->host = (struct request_host){
        .loop = options->loop,
        .handler = options->handler,
        .refuse = http_error_respond_refusal,
        .cors = options->cors,
        .context = options->context,
        .body_bytes_max = options->body_bytes_max,
        .makes_request_ids = options->makes_request_ids,
        .answer_header = options->answer_header,
        .flooded = on_flooded,
        .unread_timeout = &listener->unread_timeout,
        .linger_timeout = &listener->linger_timeout,
    };
    if (options->tls != NULL && tls_context_asks_clients(options->tls)) {
        listener->host.client_fault = on_client_fault;
        listener->host.wants_client = tls_context_is_required(options->tls);
    }
    if (options->tls != NULL)
        tls_context_hook(options->tls, (struct tls_client_hook){on_client_shown, arrival_record});
    open_arrival(listener, options);
    listener->connections_max =
        options->connections_max < LIMIT_CONNECTIONS ? options->connections_max : LIMIT_CONNECTIONS;
    enum status status = open_door(listener, options);
    if (status != STATUS_OK) {
        mem_free(listener);
        return status;
    }
    h2o_timeout_init(loop_h2o(options->loop), &listener->unread_timeout,
                     options->unread_ms_max != 0 ? options->unread_ms_max : LIMIT_UNREAD_MS);
    h2o_timeout_init(loop_h2o(options->loop), &listener->linger_timeout, LIMIT_LINGER_MS);
    h2o_linklist_init_anchor(&listener->host.requests);
    h2o_linklist_init_anchor(&listener->connections);
    h2o_linklist_init_anchor(&listener->strangers);
    h2o_linklist_init_anchor(&listener->handshakes);
    listener->name = options->name;
    listener->admit = options->admit;
    listener->admit_context = options->admit_context;
    listener->arrival_ms_max =
        options->arrival_ms_max != 0 ? options->arrival_ms_max : LIMIT_ARRIVAL_MS;
    listener->accept_again = loop_timer_create(options->loop, on_accept_again, listener);
    listener->sweep_timer = loop_timer_create(options->loop, on_sweep, listener);
    listener->arrival.turns =
        (struct arrival_turns){.loop = options->loop,
                               .timer = loop_timer_create(options->loop, on_turn, listener),
                               .h2o = &listener->context};
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
        request->h2o->http1_is_persistent = 0; /* a head not sent yet says "connection: close" */
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
    loop_timer_destroy(listener->arrival.turns.timer);
    if (listener->connections_open > 0) {
        /* libh2o still uses these connections, so their memory is leaked rather than freed. */
        LOG(LOG_WARN, "connections_left", LOG_TEXT("listener", listener->name),
            LOG_NUMBER("connections", listener->connections_open));
        return;
    }
    h2o_timeout_unlink(&listener->context.http2._graceful_shutdown_timeout);
    /* h2o_context_dispose of 2.2.5 does not free the queue. */
    h2o_timeout_dispose(loop_h2o(loop), &listener->unread_timeout);
    h2o_timeout_dispose(loop_h2o(loop), &listener->linger_timeout);
    h2o_multithread_queue_t *queue = listener->context.queue;
    h2o_context_dispose(&listener->context);
    free(queue);
    h2o_config_dispose(&listener->config);
    address_table_destroy(listener->addresses);
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
    /* getaddrinfo would accept a sign, and take a larger number modulo 65,536. */
    if (strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        strtoul(colon + 1, NULL, 10) > UINT16_MAX)
        FAIL(STATUS_INVALID, "the port of %s must be a number from 0 to 65535", address);
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

enum status listener_address(int descriptor, char *bound, size_t bound_max)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof(name);
    char host[64];
    char port[16];
    if (getsockname(descriptor, (struct sockaddr *)&name, &length) != 0 ||
        getnameinfo((struct sockaddr *)&name, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        FAIL(STATUS_IO, "the address of a listening socket cannot be read");
    bool is_v6 = name.ss_family == AF_INET6;
    snprintf(bound, bound_max, "%s%s%s:%s", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
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
    if (bound == NULL)
        return STATUS_OK;
    status = listener_address(*descriptor, bound, bound_max);
    if (status != STATUS_OK)
        close(*descriptor);
    return status;
}

/* Removes a socket on which nobody listens. EXISTS when a process listens, or when it is no
 * socket. */
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
        FAIL(STATUS_EXISTS, "another process listens on %s already", path);
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
    /* The mode is set before listen(), so nobody else can connect in between. */
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
