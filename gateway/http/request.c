#include "gateway/http/request.h"
#include "gateway/http/arrival.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "config/base/limits.h"
#include "config/base/log.h"
#include "config/base/mem.h"
#include "config/base/random_bytes.h"
#include "gateway/http/cors.h"
#include "gateway/http/h1_head.h"
#include "gateway/http/h2_arrival.h"
#include "gateway/http/h2_sweep.h"
#include "gateway/http/head_rules.h"
#include "gateway/http/request_h2o.h"

/* A writer stops at LIMIT_STREAM_PENDING_BYTES of a stream's buffer, and one event may add a frame
 * of LIMIT_ENGINE_FRAME_BYTES for each of LIMIT_CHOICES choices. A stream with more than twice the
 * latter is aborted. */
enum { STREAM_BYTES_MAX = 2 * LIMIT_CHOICES * LIMIT_ENGINE_FRAME_BYTES };

const char *request_reason(int code)
{
    static const struct {
        int code;
        const char *reason;
    } rows[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].code == code)
            return rows[i].reason;
    }
    return "Status";
}

void request_id_make(char out[REQUEST_ID_BYTES + 1])
{
    /* One system call makes random bytes for many ids: one for each request would be a tenth of the
     * time that this layer takes. */
    enum { IDS_AT_ONCE = 64, BYTES = 16 };
    static _Thread_local uint8_t unused[IDS_AT_ONCE][BYTES];
    static _Thread_local size_t left;
    static const char digits[] = "0123456789abcdef";
    if (left == 0) {
        random_bytes(unused, sizeof(unused));
        left = IDS_AT_ONCE;
    }
    const uint8_t *bytes = unused[--left];
    memcpy(out, "req_", 4);
    for (size_t i = 0; i < BYTES; i++) {
        out[4 + 2 * i] = digits[bytes[i] >> 4];
        out[5 + 2 * i] = digits[bytes[i] & 15];
    }
    out[REQUEST_ID_BYTES] = '\0';
}

/* --- the end ------------------------------------------------------------------------------- */

static void call_gone(struct http_request *request, bool is_early)
{
    void (*gone)(void *, bool) = request->gone;
    request->gone = NULL;
    request->half_closed = NULL; /* its context may be gone from now on */
    if (gone != NULL)
        gone(request->gone_context, is_early);
}

bool request_connection_judge(struct request_connection *connection, uint32_t over, uint32_t early)
{
    connection->judged += over;
    connection->judged_early += early;
    uint32_t well = connection->judged - connection->judged_early;
    uint32_t enough =
        well >= LIMIT_STREAMS_JUDGED ? LIMIT_STREAMS_JUDGED_TRUSTED : LIMIT_STREAMS_JUDGED;
    bool is_flood = connection->judged >= enough && connection->judged_early > well;
    if (connection->judged >= 2 * LIMIT_STREAMS_JUDGED_TRUSTED) {
        connection->judged /= 2;
        connection->judged_early /= 2;
    }
    return is_flood;
}

/* libh2o is about to remove the request's bytes from the connection's input, or to close it. */
static void dispose_give_back(struct http_request *request)
{
    if (request->socket != NULL)
        arrival_h1_next(request->connection, request->input_bytes_own);
    if (request->input == NULL)
        return;
    h2o_buffer_t **input = &request->socket->input;
    if ((*input)->bytes == NULL) {
        *input = request->input;
    } else { /* libh2o removes so many bytes and does not read them */
        (*input)->bytes -= request->input->size;
        (*input)->size += request->input->size;
        h2o_buffer_dispose(&request->input);
    }
    request->input = NULL;
}

/* Runs at every end of a request, when its pool is freed. A connection on which most streams end
 * before they are answered is a reset flood (CVE-2023-44487, CVE-2025-8671). */
static void dispose(void *memory)
{
    struct http_request *request = memory;
    struct request_connection *connection = request->connection;
    h2o_timeout_unlink(&request->start_entry);
    h2o_timeout_unlink(&request->unread_entry);
    h2o_linklist_unlink(&request->link);
    request->host->requests_running--;
    if (connection->request == request)
        connection->request = NULL;
    bool is_flood = request_connection_judge(connection, 1, !request->is_finished);
    if (is_flood && !connection->is_dead)
        request->host->flooded(connection);
    call_gone(request, !request->is_finished);
    if (request->is_cut && request->socket == NULL)
        h2_arrival_cut_end(connection, request->h2o, request->is_finished);
    dispose_give_back(request);
    buffer_deinit(&request->pending);
    buffer_deinit(&request->sending);
}

static void on_unread(h2o_timeout_entry_t *entry)
{
    struct http_request *request = H2O_STRUCT_FROM_MEMBER(struct http_request, unread_entry, entry);
    /* HTTP/2: the client does not open this stream's window. Other streams go on. */
    if (request->socket == NULL && !request->is_lost && h2_sweep_reset(request->h2o))
        return;
    request_lose(request);
}

/* The handler does not watch an answer that has ended, nor one that is sent in pieces. A client has
 * this long to read the bytes that are being sent, and then again for each further send. */
static void unread_begin(struct http_request *request)
{
    h2o_timeout_unlink(&request->unread_entry);
    request->unread_entry.cb = on_unread;
    h2o_timeout_link(request->h2o->conn->ctx->loop, request->host->unread_timeout,
                     &request->unread_entry);
}

/* Call it before the last h2o_send. */
static void finish_begin(struct http_request *request)
{
    request->is_finished = true;
    unread_begin(request);
}

/* Sends the next piece of a whole answer: TLS copies what it sends, so it gets little at once. The
 * request may be gone when this returns. */
static void send_piece(struct http_request *request)
{
    enum { PIECE_BYTES = 64 * 1024 };
    size_t length = request->sending_left < PIECE_BYTES ? request->sending_left : PIECE_BYTES;
    h2o_iovec_t bytes = {request->sending.bytes + request->sending.length - request->sending_left,
                         length};
    request->sending_left -= length;
    request->is_sending = true;
    if (request->sending_left == 0)
        finish_begin(request);
    else
        unread_begin(request);
    h2o_send(request->h2o, &bytes, 1,
             request->sending_left == 0 ? H2O_SEND_STATE_FINAL : H2O_SEND_STATE_IN_PROGRESS);
}

/* Sends the next bytes, or the end. The request may be gone when this returns. */
static void send_next(struct http_request *request)
{
    ASSERT(!request->is_sending);
    ASSERT(!request->is_finished);
    h2o_send_state_t state = request->is_aborting ? H2O_SEND_STATE_ERROR
                             : request->is_ending ? H2O_SEND_STATE_FINAL
                                                  : H2O_SEND_STATE_IN_PROGRESS;
    request->is_sending = true;
    if (state != H2O_SEND_STATE_IN_PROGRESS)
        finish_begin(request);
    if (request->pending.length == 0) {
        ASSERT(request->is_finished); /* libh2o would loop on an empty send that is not the last */
        h2o_send(request->h2o, NULL, 0, state);
        return;
    }
    struct buffer next = request->pending;
    request->pending = request->sending;
    request->sending = next;
    buffer_clear(&request->pending);
    h2o_iovec_t bytes = {request->sending.bytes, request->sending.length};
    h2o_send(request->h2o, &bytes, 1, state);
}

/* Ends an HTTP/1 request that has no send under way: libh2o closes the connection only after an
 * answer. */
static void lose_end(struct http_request *request)
{
    buffer_clear(&request->pending);
    if (!request->is_answered) {
        request->is_answered = true;
        request->h2o->res.status = 499;
        request->h2o->res.reason = request_reason(499);
        h2o_start_response(request->h2o, &request->generator);
    }
    request->is_ending = true;
    request->is_aborting = true;
    send_next(request);
}

/* --- lingering: the answer is made, and the client still sends a body that is not used
 * --------- */

/* A connection that is closed while bytes arrive is reset, and the reset may reach the client
 * before the answer. So the end of the answer, after which the connection is closed, waits until
 * the client has sent the body or LIMIT_LINGER_MS have passed. The body is dropped. */
static void linger_end(struct http_request *request)
{
    h2o_timeout_unlink(&request->unread_entry);
    request->is_lingering = false;
    if (!request->is_sending)
        send_next(request);
}

static void on_linger(h2o_timeout_entry_t *entry)
{
    struct http_request *request = H2O_STRUCT_FROM_MEMBER(struct http_request, unread_entry, entry);
    if (request->is_sending) /* the client does not read */
        request_lose(request);
    else
        linger_end(request);
}

static void linger_begin(struct http_request *request)
{
    request->is_ending = true;
    request->is_lingering = true;
    request->unread_entry.cb = on_linger;
    h2o_timeout_link(request->h2o->conn->ctx->loop, request->host->linger_timeout,
                     &request->unread_entry);
}

static void linger_drop(struct http_request *request)
{
    struct arrival_input *in = &request->connection->arriving;
    size_t bytes = request->socket->input->size;
    h2o_buffer_consume(&request->socket->input, bytes);
    if (in->cut_left != SIZE_MAX)
        in->cut_left -= bytes < in->cut_left ? bytes : in->cut_left;
    if (in->cut_left == 0 && request->is_lingering && !request->is_sending)
        linger_end(request);
}

/* libh2o: the bytes of the last h2o_send are written. */
static void on_proceed(h2o_generator_t *generator, h2o_req_t *h2o)
{
    (void)h2o;
    struct http_request *request = (struct http_request *)generator;
    enum { KEEP_BYTES = 16 * 1024 };
    request->is_sending = false;
    if (request->sending_left > 0 && !(request->is_lost && request->socket != NULL)) {
        send_piece(request);
        return;
    }
    request->sending_left = 0;
    if (request->sending.capacity > KEEP_BYTES)
        buffer_deinit(&request->sending);
    else
        buffer_clear(&request->sending);
    if (request->is_lost && request->socket != NULL)
        lose_end(request); /* its client left between the end of the write and this call */
    else if (request->is_lingering && request->connection->arriving.cut_left > 0)
        return;
    else if (request->is_lingering)
        linger_end(request);
    else if (request->pending.length > 0 || request->is_ending)
        send_next(request);
    else if (request->drained != NULL)
        request->drained(request->drained_context);
}

void request_lose(struct http_request *request)
{
    if (request->is_lost)
        return;
    request->is_lost = true;
    shutdown(request->connection->descriptor, SHUT_RDWR);
    if (request->socket != NULL)
        request->h2o->http1_is_persistent = 0;
    bool is_last_send_due =
        request->socket != NULL && !request->is_finished && !request->is_sending;
    if (!request->is_finished)
        call_gone(request, true);
    if (is_last_send_due) /* else HTTP/2 reads the end, or the write under way completes */
        lose_end(request);
}

/* --- the watch: an HTTP/1 connection is read while its request runs, to see the client leave
 * --- */

static void on_watch(h2o_socket_t *socket, const char *error)
{
    struct request_connection *connection = socket->on_close.data;
    struct http_request *request = connection->request;
    ASSERT(request != NULL);
    if (error == NULL && request->is_cut) {
        linger_drop(request);
        return;
    }
    if (error == NULL) {
        /* Pipelined requests wait in the input buffer; more of them wait in the kernel. */
        if (socket->input->size - request->input_bytes_own > LIMIT_PIPELINED_BYTES)
            h2o_socket_read_stop(socket);
        return;
    }
    h2o_socket_read_stop(socket);
    request->h2o->http1_is_persistent = 0;
    if (request->is_finished)
        return; /* the last bytes are being written; then libh2o closes the connection */
    if (request->is_lingering) {
        request->connection->arriving.cut_left = 0; /* no more bytes can come */
        if (!request->is_sending)
            linger_end(request);
        return;
    }
    if (request->half_closed != NULL && error == h2o_socket_error_closed) {
        void (*half_closed)(void *) = request->half_closed;
        request->half_closed = NULL;
        half_closed(request->half_closed_context);
        return;
    }
    request_lose(request);
}

/* --- the beginning ------------------------------------------------------------------------- */

static struct slice begin_copy(h2o_req_t *h2o, h2o_iovec_t bytes)
{
    char *copy = h2o_mem_alloc_pool(&h2o->pool, bytes.len + 1);
    if (bytes.len > 0)
        memcpy(copy, bytes.base, bytes.len);
    copy[bytes.len] = '\0';
    return (struct slice){copy, bytes.len};
}

/* Bytes that move to another address, with libh2o's pointers into them. */
struct begin_move {
    uintptr_t from;
    size_t length;
    char *to;
};

static void begin_move_one(const struct begin_move *move, h2o_iovec_t *bytes)
{
    uintptr_t offset = (uintptr_t)bytes->base - move->from;
    if (bytes->base != NULL && offset <= move->length)
        bytes->base = move->to + offset;
}

static void begin_move_all(h2o_req_t *h2o, const struct begin_move *move)
{
    h2o_iovec_t *const parts[] = {
        &h2o->input.method, &h2o->input.path, &h2o->input.authority, &h2o->method, &h2o->path,
        &h2o->authority,    &h2o->entity,     &h2o->path_normalized, &h2o->upgrade};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        begin_move_one(move, parts[i]);
    for (size_t i = 0; i < h2o->headers.size; i++) {
        h2o_header_t *header = &h2o->headers.entries[i];
        begin_move_one(move, &header->value);
        if (!h2o_iovec_is_token(header->name))
            begin_move_one(move, header->name);
    }
}

/* Frees the unused end of the buffer, which lives as long as the request. */
static void begin_fit(h2o_req_t *h2o, h2o_buffer_t **buffer)
{
    enum { WASTE_BYTES = 1024 };
    h2o_buffer_t *old = *buffer;
    if (old->_fd != -1 || old->bytes != old->_buf || old->capacity - old->size < WASTE_BYTES)
        return;
    struct begin_move move = {.from = (uintptr_t)old->bytes, .length = old->size};
    h2o_buffer_t *fitted = realloc(old, offsetof(h2o_buffer_t, _buf) + old->size + 1);
    if (fitted == NULL)
        return;
    fitted->capacity = fitted->size + 1;
    fitted->bytes = fitted->_buf;
    move.to = fitted->bytes;
    begin_move_all(h2o, &move);
    *buffer = fitted;
}

/* Leaves the bytes of pipelined requests to the connection, in a new buffer. */
static void begin_leave_rest(struct http_request *request, h2o_buffer_t *input, size_t bytes)
{
    h2o_buffer_init(&request->socket->input, &h2o_socket_buffer_prototype);
    size_t rest = input->size - bytes;
    if (rest == 0)
        return;
    h2o_iovec_t to = h2o_buffer_reserve(&request->socket->input, rest);
    memcpy(to.base, input->bytes + bytes, rest);
    request->socket->input->size = rest;
    input->size = bytes;
}

/* On HTTP/1 libh2o's strings and the body are in the connection's input buffer, into which the
 * watch reads. The request takes the buffer and gives the connection a new one with the bytes that
 * follow; dispose puts it back just before libh2o removes the request's bytes from it. A request
 * without a body that is followed by another one gets a copy of its head instead.
 *
 *   socket->input ──► [ head | body ]        request->input ──► [ head | body ]
 *                                      ==>    socket->input ──► [ ]  (pipelined bytes come here)
 */
static void begin_take_input(struct http_request *request, size_t head_bytes)
{
    h2o_req_t *h2o = request->h2o;
    h2o_buffer_t *input = request->socket->input;
    bool has_body = h2o->entity.base != NULL && h2o->entity.len > 0;
    size_t bytes =
        has_body ? (size_t)(h2o->entity.base + h2o->entity.len - input->bytes) : head_bytes;
    request->head_bytes = has_body ? (size_t)(h2o->entity.base - input->bytes) : head_bytes;
    ASSERT(bytes <= input->size);
    if (bytes == input->size || has_body) {
        begin_leave_rest(request, input, bytes);
        begin_fit(h2o, &input);
        request->input = input;
        return;
    }
    if (bytes == 0) /* the head is malformed, and the request is refused */
        bytes = input->size;
    request->input_bytes_own = bytes;
    struct begin_move move = {.from = (uintptr_t)input->bytes, .length = bytes};
    move.to = h2o_mem_alloc_pool(&h2o->pool, bytes + 1);
    memcpy(move.to, input->bytes, bytes);
    begin_move_all(h2o, &move);
}

/* Ends one of libh2o's strings with a NUL: after it comes a NUL already, or, on HTTP/1, a separator
 * that was parsed. */
static struct slice begin_string(h2o_iovec_t bytes)
{
    if (bytes.base == NULL)
        return (struct slice){"", 0};
    if (bytes.base[bytes.len] != '\0')
        bytes.base[bytes.len] = '\0';
    return (struct slice){bytes.base, bytes.len};
}

/* Takes the path out of a target in absolute form; its authority replaces that of Host (RFC 9112,
 * 3.2.2). */
static void begin_target(h2o_req_t *h2o)
{
    static const char *const schemes[] = {"https://", "http://"};
    size_t skip = 0;
    for (size_t i = 0; i < 2 && skip == 0; i++) {
        size_t length = strlen(schemes[i]);
        if (h2o->path.len > length && strncasecmp(h2o->path.base, schemes[i], length) == 0)
            skip = length;
    }
    if (skip == 0)
        return;
    h2o_iovec_t rest = {h2o->path.base + skip, h2o->path.len - skip};
    size_t host = 0;
    while (host < rest.len && rest.base[host] != '/' && rest.base[host] != '?')
        host++;
    h2o->authority = h2o_strdup(&h2o->pool, rest.base, host);
    h2o->path = (h2o_iovec_t){rest.base + host, rest.len - host};
    if (h2o->path.len == 0 || h2o->path.base[0] != '/')
        h2o->path = h2o_concat(&h2o->pool, h2o_iovec_init(H2O_STRLIT("/")), h2o->path);
}

/* Makes what handlers see: slices of libh2o's strings, which live as long as the request. */
static void begin_view(struct http_request *request, h2o_req_t *h2o)
{
    if (request->socket != NULL)
        begin_target(h2o);
    request->method = begin_string(h2o->method);
    request->is_head = slice_is(request->method, "HEAD");
    struct slice path = begin_string(h2o->path);
    const char *mark = path.length > 0 ? memchr(path.bytes, '?', path.length) : NULL;
    request->path = path;
    if (mark != NULL) {
        request->path.length = (size_t)(mark - path.bytes);
        request->query = (struct slice){mark + 1, path.length - request->path.length - 1};
    }
    request->header_count = h2o->headers.size;
    request->headers =
        h2o_mem_alloc_pool(&h2o->pool, (request->header_count + 1) * sizeof(request->headers[0]));
    for (size_t i = 0; i < request->header_count; i++) {
        const h2o_header_t *header = &h2o->headers.entries[i];
        request->headers[i].name = h2o_iovec_is_token(header->name)
                                       ? header->name->base
                                       : begin_string(*header->name).bytes;
        request->headers[i].value = begin_string(header->value);
    }
    request->body = (struct slice){h2o->entity.base, h2o->entity.len};
}

static void drop_move_view(const struct begin_move *move, struct slice *view)
{
    h2o_iovec_t bytes = {(char *)(uintptr_t)view->bytes, view->length};
    begin_move_one(move, &bytes);
    view->bytes = bytes.base;
}

/* Moves the slices of the head as libh2o's strings were moved. */
static void drop_move_views(struct http_request *request, const struct begin_move *move)
{
    drop_move_view(move, &request->method);
    drop_move_view(move, &request->path);
    drop_move_view(move, &request->query);
    for (size_t i = 0; i < request->header_count; i++) {
        struct slice name = {request->headers[i].name, 0};
        drop_move_view(move, &name);
        request->headers[i].name = name.bytes;
        drop_move_view(move, &request->headers[i].value);
    }
    for (size_t i = 0; i < REQUEST_PATH_ARGUMENTS; i++)
        drop_move_view(move, &request->path_arguments[i]);
}

/* Replaces the input by one that has only the head. Its `size` stays: at the request's end libh2o
 * removes so many bytes from the connection's input, without reading them. */
static void drop_input(struct http_request *request)
{
    h2o_buffer_t *old = request->input;
    size_t capacity = request->head_bytes + 1;
    if (old->_fd != -1 || capacity > old->size)
        return;
    h2o_buffer_t *head = malloc(offsetof(h2o_buffer_t, _buf) + capacity);
    if (head == NULL)
        return;
    *head = *old;
    head->capacity = capacity;
    head->bytes = head->_buf;
    memcpy(head->_buf, old->bytes, capacity);
    request->h2o->entity = (h2o_iovec_t){NULL, 0};
    const struct begin_move move = {
        .from = (uintptr_t)old->bytes, .length = request->head_bytes, .to = head->bytes};
    begin_move_all(request->h2o, &move);
    drop_move_views(request, &move);
    h2o_buffer_dispose(&old);
    request->input = head;
}

void http_body_drop(struct http_request *request)
{
    if (request->body.length <= HTTP_BODY_KEPT)
        return;
    request->body = (struct slice){0};
    if (request->socket == NULL)
        h2_sweep_drop_body(request->h2o);
    else if (request->input != NULL)
        drop_input(request);
}

void http_prove(struct http_request *request)
{
    const struct arrival *arrival = request->connection->arrival;
    arrival->prove(request->connection);
}

bool http_body_is_cut(const struct http_request *request)
{
    return request->is_cut;
}

enum status http_body_take(struct http_request *request, struct buffer *out)
{
    struct slice body = request->body;
    buffer_init(out, body.length + 1);
    out->bytes = mem_alloc(body.length + 1);
    if (out->bytes == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a request's body");
    out->capacity = body.length + 1;
    out->length = body.length;
    if (body.length > 0)
        memcpy(out->bytes, body.bytes, body.length);
    out->bytes[body.length] = '\0';
    http_body_drop(request);
    return STATUS_OK;
}

static size_t begin_head_bytes(const h2o_req_t *h2o)
{
    enum { FIELD_OVERHEAD = 4 }; /* ": " and CR LF, as in HTTP/1 */
    size_t bytes = h2o->method.len + h2o->path.len + h2o->authority.len;
    for (size_t i = 0; i < h2o->headers.size; i++)
        bytes +=
            h2o->headers.entries[i].name->len + h2o->headers.entries[i].value.len + FIELD_OVERHEAD;
    return bytes;
}

/* Checks the raw head of HTTP/1. A connection is closed after a chunked body: libh2o reads sizes,
 * extensions and trailers less strictly than RFC 9112, so the sender (or a proxy) and libh2o may
 * disagree about where the next request begins. */
static const char *begin_framing_fault(struct http_request *request, size_t *head_bytes)
{
    *head_bytes = 0;
    h2o_req_t *h2o = request->h2o;
    if (request->socket == NULL) {
        *head_bytes = begin_head_bytes(h2o);
        return NULL;
    }
    const h2o_buffer_t *input = request->socket->input;
    struct h1_head head;
    if (request->is_cut)
        head = request->connection->arriving.cut_head;
    else if (!h1_head_scan((struct slice){input->bytes, input->size}, &head))
        return "The request's head is malformed.";
    *head_bytes = head.bytes;
    if (head.transfer_encodings > 0)
        h2o->http1_is_persistent = 0;
    return h1_head_fault(&head, h2o->version >= 0x101);
}

/* 0, or the code that refuses the request before any handler. */
static int begin_refusal(struct http_request *request, size_t *head_bytes)
{
    const h2o_req_t *h2o = request->h2o;
    const struct arrival_input *in = &request->connection->arriving;
    int cut_code = in->cut_code;
    request->is_cut = request->socket != NULL ? in->is_cut : h2_arrival_is_cut(h2o, &cut_code);
    if (!request->is_cut)
        cut_code = 0;
    request->refusal_reason = begin_framing_fault(request, head_bytes);
    if (request->refusal_reason != NULL)
        return 400;
    if (request->host->client_fault != NULL)
        request->refusal_reason = request->host->client_fault(request->connection);
    if (request->refusal_reason != NULL)
        return 401;
    if (h2o->path.len > LIMIT_PATH_BYTES)
        return 414;
    if (*head_bytes > LIMIT_HEAD_BYTES)
        return 431;
    if (h2o->entity.len > request->host->body_bytes_max)
        return 413;
    return cut_code;
}

/* The same by the rules for method, path, authority and headers. */
static int begin_refusal_of_rules(struct http_request *request)
{
    const h2o_req_t *h2o = request->h2o;
    struct head_rules rules = {.method = request->method,
                               .path = {h2o->path.base, h2o->path.len},
                               .authority = {h2o->authority.base, h2o->authority.len},
                               .headers = request->headers,
                               .header_count = request->header_count,
                               .is_http2 = request->socket == NULL,
                               .needs_authority = h2o->version >= 0x101};
    request->refusal_reason = head_rules_fault(&rules);
    return request->refusal_reason != NULL ? 400 : 0;
}

/* Bodies are never decoded; "identity" means no encoding (RFC 9110, 8.4.1 and 15.5.16). */
static bool is_encoded(const struct http_request *request)
{
    static const char identity[] = "identity";
    for (size_t i = 0; i < request->header_count; i++) {
        struct slice value = request->headers[i].value;
        if (strcmp(request->headers[i].name, "content-encoding") == 0 && value.length != 0 &&
            (value.length != sizeof identity - 1 ||
             strncasecmp(value.bytes, identity, value.length) != 0))
            return true;
    }
    return false;
}

/* A GET usually has no body. A body that was cut off counts, so that the answer does not depend on
 * how fast the body came. */
static bool has_content(const struct http_request *request)
{
    bool is_get = request->is_head || slice_is(request->method, "GET");
    return !is_get || request->is_cut || request->body.length > 0;
}

static void on_start(h2o_timeout_entry_t *entry)
{
    struct http_request *request = H2O_STRUCT_FROM_MEMBER(struct http_request, start_entry, entry);
    request->is_started = true;
    if (request->socket != NULL && request->connection->is_dead) {
        request_lose(request); /* on HTTP/1 nothing else closes the connection now */
        return;
    }
    if (request->socket != NULL) {
        request->connection->request = request;
        /* The bytes of pipelined requests are bounded, however many of them are answered. */
        if (request->socket->input->size - request->input_bytes_own <= LIMIT_PIPELINED_BYTES)
            h2o_socket_read_start(request->socket, on_watch);
    }
    if (request->refusal_code != 0)
        request->host->refuse(request, request->refusal_code, request->refusal_reason);
    else
        request->host->handler(request, request->host->context);
}

void request_begin(struct request_host *host, h2o_req_t *h2o)
{
    struct http_request *request = h2o_mem_alloc_shared(&h2o->pool, sizeof(*request), dispose);
    *request = (struct http_request){.generator = {on_proceed, NULL}, .h2o = h2o, .host = host};
    h2o_socket_t *socket = h2o->conn->callbacks->get_socket(h2o->conn);
    request->connection = socket->on_close.data;
    request->socket = h2o->version < 0x200 ? socket : NULL;
    buffer_init(&request->pending, STREAM_BYTES_MAX);
    buffer_init(&request->sending, STREAM_BYTES_MAX);
    request_id_make(request->id);
    size_t head_bytes;
    request->refusal_code = begin_refusal(request, &head_bytes);
    if (request->socket != NULL) {
        begin_take_input(request, head_bytes);
        arrival_h1_serve(request->connection);
    } else {
        h2_arrival_serve(h2o);
    }
    begin_view(request, h2o);
    if (request->refusal_code == 0)
        request->refusal_code = begin_refusal_of_rules(request);
    if (request->is_cut || (request->refusal_code != 0 && request->refusal_code != 413))
        h2o->http1_is_persistent = 0;
    if (request->refusal_code == 0 && has_content(request) && is_encoded(request))
        request->refusal_code = 415;
    h2o_linklist_insert(&host->requests, &request->link);
    host->requests_running++;
    request->connection->streams_started++;
    if (request->connection->is_dead && request->socket == NULL)
        return; /* the connection is being closed, and this is the rest of what it has read */
    /* The handler runs one turn later, and not at all when the same read also resets the stream. */
    request->start_entry.cb = on_start;
    h2o_timeout_link(h2o->conn->ctx->loop, &h2o->conn->ctx->zero_timeout, &request->start_entry);
}

bool request_is_ours(const h2o_req_t *h2o)
{
    return h2o->_generator != NULL && h2o->_generator->proceed == on_proceed;
}

/* --- what handlers see --------------------------------------------------------------------- */

struct loop *http_loop(struct http_request *request)
{
    return request->host->loop;
}

struct slice http_method(const struct http_request *request)
{
    return request->method;
}

struct slice http_path(const struct http_request *request)
{
    return request->path;
}

struct slice http_query(const struct http_request *request)
{
    return request->query;
}

struct slice http_body(const struct http_request *request)
{
    return request->body;
}

struct slice http_header_get(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++) {
        if (strcmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    }
    return (struct slice){0};
}

size_t http_header_count(const struct http_request *request, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < request->header_count; i++)
        count += strcmp(request->headers[i].name, name) == 0;
    return count;
}

struct slice http_path_argument(const struct http_request *request, size_t index)
{
    ASSERT(index < REQUEST_PATH_ARGUMENTS);
    return request->path_arguments[index];
}

void request_method_set(struct http_request *request, struct slice method)
{
    request->method = method;
}

void request_path_argument_set(struct http_request *request, size_t index, struct slice value)
{
    ASSERT(index < REQUEST_PATH_ARGUMENTS);
    request->path_arguments[index] = value;
}

static void peer_name(const union request_peer *peer, char *out, size_t capacity)
{
    char host[INET6_ADDRSTRLEN];
    if (peer->any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &peer->v4.sin_addr, host, sizeof(host));
        snprintf(out, capacity, "%s:%u", host, ntohs(peer->v4.sin_port));
    } else if (peer->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &peer->v6.sin6_addr, host, sizeof(host));
        snprintf(out, capacity, "[%s]:%u", host, ntohs(peer->v6.sin6_port));
    } else {
        snprintf(out, capacity, "unix");
    }
}

void request_peer_name(const struct request_connection *connection, char out[REQUEST_PEER_BYTES])
{
    peer_name(&connection->peer, out, REQUEST_PEER_BYTES);
}

void http_peer_name(const struct http_request *request, char *out, size_t capacity)
{
    peer_name(&request->connection->peer, out, capacity);
}

const struct peer_certificate *http_peer_certificate(const struct http_request *request,
                                                     bool *is_required)
{
    const struct tls_client *client = request->connection->client;
    *is_required = request->host->wants_client;
    return client != NULL ? tls_client_peer(client) : NULL;
}

struct slice http_request_id(const struct http_request *request)
{
    return (struct slice){request->id, REQUEST_ID_BYTES};
}

void *http_alloc(struct http_request *request, size_t bytes)
{
    return h2o_mem_alloc_pool(&request->h2o->pool, bytes);
}

void http_on_gone(struct http_request *request, void (*gone)(void *context, bool is_early),
                  void *context)
{
    request->gone = gone;
    request->gone_context = context;
}

void http_on_half_close(struct http_request *request, void (*half_closed)(void *context),
                        void *context)
{
    request->half_closed = half_closed;
    request->half_closed_context = context;
}

static void answer_header(h2o_req_t *h2o, const char *name, struct slice value)
{
    struct slice name_copy = begin_copy(h2o, h2o_iovec_init(name, strlen(name)));
    struct slice value_copy = begin_copy(h2o, h2o_iovec_init(value.bytes, value.length));
    h2o_add_header_by_str(&h2o->pool, &h2o->res.headers, name_copy.bytes, name_copy.length, 1, NULL,
                          value_copy.bytes, value_copy.length);
}

void http_add_header(struct http_request *request, const char *name, struct slice value)
{
    if (request != NULL && value.length > 0 && !http_is_answered(request))
        answer_header(request->h2o, name, value);
}

void request_add_cors(const struct cors *cors, h2o_req_t *h2o)
{
    struct http_header headers[CORS_HEADERS];
    struct slice origin = {0};
    ssize_t at =
        cors != NULL ? h2o_find_header_by_str(&h2o->headers, H2O_STRLIT("origin"), -1) : -1;
    if (at >= 0)
        origin =
            (struct slice){h2o->headers.entries[at].value.base, h2o->headers.entries[at].value.len};
    size_t count = cors_headers(cors, origin, headers);
    for (size_t i = 0; i < count; i++)
        answer_header(h2o, headers[i].name, headers[i].value);
}

static void answer_begin(struct http_request *request, int code, const struct http_header *headers,
                         size_t header_count)
{
    ASSERT(!request->is_answered);
    ASSERT(!request->is_lost);
    request->is_answered = true;
    h2o_req_t *h2o = request->h2o;
    h2o->res.status = code;
    h2o->res.reason = request_reason(code);
    for (size_t i = 0; i < header_count; i++)
        answer_header(h2o, headers[i].name, headers[i].value);
    if (request->host->makes_request_ids)
        answer_header(h2o, "x-request-id", http_request_id(request));
    request_add_cors(request->host->cors, h2o);
    if (request->host->answer_header.name != NULL)
        answer_header(h2o, request->host->answer_header.name, request->host->answer_header.value);
}

void http_respond(struct http_request *request, int code, const struct http_header *headers,
                  size_t header_count, struct slice body)
{
    answer_begin(request, code, headers, header_count);
    h2o_req_t *h2o = request->h2o;
    bool has_body = code != 204 && code != 304;
    if (has_body)
        h2o->res.content_length = body.length;
    bool is_sent = has_body && body.length > 0 && !request->is_head;
    h2o_iovec_t bytes = {NULL, 0};
    if (is_sent)
        bytes = h2o_iovec_init(begin_copy(h2o, h2o_iovec_init(body.bytes, body.length)).bytes,
                               body.length);
    http_body_drop(request);
    h2o_start_response(h2o, &request->generator);
    request->is_sending = true;
    if (request->is_cut && request->socket != NULL && request->connection->arriving.cut_left > 0) {
        linger_begin(request); /* the first send sends the head, also without a body */
        h2o_send(h2o, &bytes, is_sent ? 1 : 0, H2O_SEND_STATE_IN_PROGRESS);
        return;
    }
    finish_begin(request);
    h2o_send(h2o, &bytes, is_sent ? 1 : 0, H2O_SEND_STATE_FINAL);
}

/* Frees the unused end of a buffer when it is more than an eighth of the bytes. */
static void take_fit(struct buffer *body)
{
    size_t capacity = body->length + 1;
    char *fitted = NULL;
    if (body->capacity - body->length > body->length / 8)
        fitted = mem_realloc(body->bytes, capacity);
    if (fitted == NULL)
        return;
    body->bytes = fitted;
    body->capacity = capacity;
}

void http_respond_take(struct http_request *request, int code, const struct http_header *headers,
                       size_t header_count, struct buffer *body)
{
    ASSERT(body->status == STATUS_OK);
    if (body->length == 0 || request->is_head) {
        http_respond(request, code, headers, header_count, buffer_slice(body));
        buffer_deinit(body);
        return;
    }
    answer_begin(request, code, headers, header_count);
    request->h2o->res.content_length = body->length;
    request->is_ending = true;
    request->sending_left = body->length;
    take_fit(body);
    request->sending = *body;
    buffer_init(body, body->limit_bytes);
    http_body_drop(request);
    h2o_start_response(request->h2o, &request->generator);
    send_piece(request);
}

size_t http_answer_bytes(const struct http_request *request)
{
    return request->pending.capacity + request->sending.capacity;
}

void http_respond_json(struct http_request *request, int code, struct slice body)
{
    struct http_header type = {"content-type", SLICE("application/json")};
    http_respond(request, code, &type, 1, body);
}

void http_stream_begin(struct http_request *request, int code, const struct http_header *headers,
                       size_t header_count, void (*drained)(void *context), void *context)
{
    answer_begin(request, code, headers, header_count);
    request->drained = drained;
    request->drained_context = context;
    /* libh2o would send the size, the bytes and the end of a chunk as three TLS records. With this
     * header it leaves the chunks to us. An answer with another code ends with the connection. */
    request->is_chunked = request->h2o->version == 0x101 && code == 200 && !request->is_head;
    if (request->is_chunked)
        h2o_add_header(&request->h2o->pool, &request->h2o->res.headers, H2O_TOKEN_TRANSFER_ENCODING,
                       NULL, H2O_STRLIT("chunked"));
    h2o_start_response(request->h2o, &request->generator);
}

static void write_chunk_head(struct buffer *out, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    char text[2 * sizeof length + 2];
    size_t at = sizeof text - 2;
    memcpy(text + at, "\r\n", 2);
    for (; length != 0; length >>= 4)
        text[--at] = digits[length & 15];
    buffer_append(out, text + at, sizeof text - at);
}

void http_stream_write(struct http_request *request, struct slice bytes)
{
    ASSERT(request->is_answered);
    ASSERT(!request->is_lost);
    if (bytes.length == 0 || request->is_aborting || request->is_head)
        return;
    ASSERT(!request->is_ending);
    if (request->is_chunked)
        write_chunk_head(&request->pending, bytes.length);
    buffer_append_slice(&request->pending, bytes);
    if (request->is_chunked)
        buffer_append_text(&request->pending, "\r\n");
    if (request->pending.status != STATUS_OK) {
        log_failure(LOG_ERROR, "stream_broken_off"); /* the client must not miss bytes unseen */
        http_stream_abort(request);
    } else if (!request->is_sending) {
        send_next(request);
    }
}

size_t http_stream_pending(const struct http_request *request)
{
    return request->pending.length + request->sending.length;
}

void http_stream_end(struct http_request *request)
{
    ASSERT(request->is_answered);
    ASSERT(!request->is_lost);
    if (request->is_aborting)
        return;
    ASSERT(!request->is_ending);
    if (request->is_chunked)
        buffer_append_text(&request->pending, "0\r\n\r\n");
    request->is_aborting = request->pending.status != STATUS_OK;
    request->is_ending = true;
    if (!request->is_sending)
        send_next(request);
    else
        unread_begin(request);
}

void http_stream_abort(struct http_request *request)
{
    ASSERT(request->is_answered);
    ASSERT(!request->is_lost);
    if (request->is_finished)
        return;
    bool was_ending = request->is_ending;
    request->is_aborting = true;
    request->is_ending = true;
    if (!request->is_sending)
        send_next(request);
    else if (!was_ending)
        unread_begin(request);
}

bool http_is_answered(const struct http_request *request)
{
    return request->is_answered;
}
