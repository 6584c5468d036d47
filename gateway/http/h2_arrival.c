#include "gateway/http/h2_arrival.h"

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/limits_door.h"
#include "gateway/http/arrival.h"
#include "gateway/http/h2_turns.h"
#include "gateway/http/request_h2o.h"

enum {
    POOL_CHUNK_BYTES = 4096,
    CALM_BYTES = 128 * 1024, /* unsent frames count from here on; data stays below it */
};

/* Our state of a stream. It is kept in the request's environment variables, which have no other use
 * here. */
struct mark {
    struct arrival *arrival;
    h2o_req_t *h2o;
    struct door_hold known;
    uint8_t owner[DOOR_SHARE_OWNER_BYTES];
    size_t reserved_bytes;
    bool is_unproved;
    bool is_cut;
    int code;
};

static void on_mark_disposed(void *memory)
{
    struct mark *mark = memory;
    door_share_leave(&mark->arrival->known, &mark->known);
}

static struct mark *mark_of(const h2o_req_t *h2o)
{
    return h2o->env.size > 0 ? (struct mark *)(void *)h2o->env.entries[0].base : NULL;
}

static void give_way(struct door_hold *hold);

static struct mark *mark_make(h2o_req_t *h2o, struct arrival *arrival)
{
    struct mark *mark = h2o_mem_alloc_shared(&h2o->pool, sizeof *mark, on_mark_disposed);
    *mark = (struct mark){.arrival = arrival, .h2o = h2o, .known = {.give_way = give_way}};
    h2o_vector_reserve(&h2o->pool, &h2o->env, 1);
    h2o->env.entries[0] = h2o_iovec_init(mark, 0);
    h2o->env.size = 1;
    return mark;
}

/* --- memory in use --------------------------------------------------------------------------- */

static size_t buffer_bytes(const h2o_buffer_t *buffer)
{
    return buffer != NULL && buffer->bytes != NULL ? buffer->capacity : 0;
}

static bool is_arriving(const h2o_http2_stream_t *stream)
{
    return stream->state == H2O_HTTP2_STREAM_STATE_RECV_HEADERS ||
           stream->state == H2O_HTTP2_STREAM_STATE_RECV_BODY;
}

bool h2_arrival_is_known(const h2o_http2_stream_t *stream)
{
    const struct mark *mark = mark_of(&stream->req);
    return mark != NULL && mark->known.account != NULL;
}

size_t h2_arrival_held_bytes(const h2o_http2_conn_t *conn)
{
    size_t bytes = buffer_bytes(conn->sock->input) + buffer_bytes(conn->_headers_unparsed) +
                   arrival_encrypted_bytes(conn->sock);
    size_t unsent = buffer_bytes(conn->_write.buf) + buffer_bytes(conn->_write.buf_in_flight);
    if (unsent > CALM_BYTES)
        bytes += unsent;
    const struct request_connection *connection = conn->sock->on_close.data;
    bytes += connection->arriving.h2_trailers.capacity;
    if (conn->num_streams.pull.open == conn->num_streams.pull.half_closed)
        return bytes;
    for (khiter_t at = kh_begin(conn->streams); at != kh_end(conn->streams); at++) {
        if (!kh_exist(conn->streams, at) || !is_arriving(kh_value(conn->streams, at)))
            continue;
        const h2o_http2_stream_t *stream = kh_value(conn->streams, at);
        /* A vector that grows in a pool leaves its smaller copies behind. */
        bytes += sizeof *stream + POOL_CHUNK_BYTES +
                 2 * stream->req.headers.capacity * sizeof stream->req.headers.entries[0];
        if (!h2_arrival_is_known(stream))
            bytes += buffer_bytes(stream->_req_body);
    }
    return bytes;
}

/* --- a head without its body ----------------------------------------------------------------- */

static enum listener_claim claim(struct request_connection *connection, const h2o_req_t *h2o,
                                 struct mark *mark, bool is_again)
{
    static const h2o_iovec_t api_key = {H2O_STRLIT("x-api-key")};
    struct listener_head head = {.is_again = is_again};
    for (size_t i = 0; i < h2o->headers.size; i++) {
        const h2o_header_t *header = &h2o->headers.entries[i];
        struct slice value = {header->value.base, header->value.len};
        if (header->name == &H2O_TOKEN_AUTHORIZATION->buf) {
            head.authorization = value;
            head.authorizations++;
        } else if (h2o_memis(header->name->base, header->name->len, api_key.base, api_key.len)) {
            head.api_key = value;
            head.api_keys++;
        }
    }
    return arrival_claim(connection, head, mark->owner);
}

/* Passes the request on as if its body had ended; frames of the body are dropped later. */
static void cut(h2o_http2_conn_t *conn, h2o_http2_stream_t *stream, struct mark *mark)
{
    mark->is_cut = true;
    h2o_buffer_dispose(&stream->_req_body);
    stream->_req_body = NULL;
    h2o_http2_stream_set_state(conn, stream, H2O_HTTP2_STREAM_STATE_REQ_PENDING);
    h2o_http2_stream_set_state(conn, stream, H2O_HTTP2_STREAM_STATE_SEND_HEADERS);
    if (conn->pull_stream_ids.max_processed < stream->stream_id)
        conn->pull_stream_ids.max_processed = stream->stream_id;
    h2o_timeout_unlink(&conn->_timeout_entry); /* the connection is not idle any more */
    h2o_process_request(&stream->req);
}

static void send_continue(h2o_http2_conn_t *conn, const h2o_http2_stream_t *stream)
{
    /* ":status: 100" as a literal without indexing (RFC 7541, section 6.2.2). */
    static const char block[] = {0x08, 0x03, '1', '0', '0'};
    ssize_t at = h2o_find_header(&stream->req.headers, H2O_TOKEN_EXPECT, -1);
    if (at == -1 ||
        !h2o_lcstris(stream->req.headers.entries[at].value.base,
                     stream->req.headers.entries[at].value.len, H2O_STRLIT("100-continue")))
        return;
    h2o_iovec_t out =
        h2o_buffer_reserve(&conn->_write.buf, H2O_HTTP2_FRAME_HEADER_SIZE + sizeof block);
    if (out.base == NULL)
        return;
    h2o_http2_encode_frame_header((uint8_t *)out.base, sizeof block, H2O_HTTP2_FRAME_TYPE_HEADERS,
                                  H2O_HTTP2_FRAME_FLAG_END_HEADERS, (int32_t)stream->stream_id);
    memcpy(out.base + H2O_HTTP2_FRAME_HEADER_SIZE, block, sizeof block);
    conn->_write.buf->size += H2O_HTTP2_FRAME_HEADER_SIZE + sizeof block;
    h2o_http2_conn_request_write(conn);
}

static enum byte_shares_verdict reserve(h2o_http2_stream_t *stream, struct mark *mark)
{
    struct door_share *known = &mark->arrival->known;
    known->now_us = clock_mono_us(clock_system());
    bool is_counted = stream->_expected_content_length != SIZE_MAX;
    mark->reserved_bytes =
        is_counted ? stream->_expected_content_length : mark->arrival->body_bytes_max;
    if (mark->reserved_bytes == 0)
        mark->reserved_bytes = 1;
    enum byte_shares_verdict verdict = door_share_admit(known, mark->owner, mark->reserved_bytes);
    if (verdict != BYTE_SHARES_OK)
        return verdict;
    if (!door_share_set(known, &mark->known, mark->owner, mark->reserved_bytes))
        return BYTE_SHARES_NO_MEMORY;
    if (is_counted) /* one block of the right size; libh2o would double it again and again */
        h2o_buffer_reserve(&stream->_req_body, mark->reserved_bytes);
    return BYTE_SHARES_OK;
}

static void refuse(h2o_http2_conn_t *conn, h2o_http2_stream_t *stream, struct mark *mark, int code)
{
    mark->code = code;
    cut(conn, stream, mark);
}

/* Ends an upload whose body is arriving, and answers 429. */
static void give_way(struct door_hold *hold)
{
    struct mark *mark = H2O_STRUCT_FROM_MEMBER(struct mark, known, hold);
    h2o_http2_stream_t *stream = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, mark->h2o);
    h2o_http2_conn_t *conn = (h2o_http2_conn_t *)mark->h2o->conn;
    int code = arrival_give_way_code(mark->arrival, hold);
    door_share_leave(&mark->arrival->known, hold);
    if (conn->state < H2O_HTTP2_CONN_STATE_IS_CLOSING &&
        stream->state == H2O_HTTP2_STREAM_STATE_RECV_BODY)
        refuse(conn, stream, mark, code);
}

/* Reserves memory for the body. False when there is no room; then the request was refused. */
static bool admit(struct request_connection *connection, h2o_http2_conn_t *conn,
                  h2o_http2_stream_t *stream, struct mark *mark)
{
    int code = arrival_refusal_code(mark->arrival, reserve(stream, mark));
    if (code != 0)
        refuse(conn, stream, mark, code);
    else
        arrival_trust(connection);
    return code == 0;
}

static void look(struct request_connection *connection, h2o_http2_conn_t *conn,
                 h2o_http2_stream_t *stream)
{
    struct mark *mark = mark_make(&stream->req, connection->arrival);
    size_t expected = stream->_expected_content_length;
    if (expected != SIZE_MAX && expected > connection->arrival->body_bytes_max) {
        refuse(conn, stream, mark, 413);
        return;
    }
    enum listener_claim found = claim(connection, &stream->req, mark, false);
    mark->is_unproved = found == LISTENER_UNPROVED;
    if (found == LISTENER_STRANGER) {
        cut(conn, stream, mark);
        return;
    }
    if (found != LISTENER_KNOWN || admit(connection, conn, stream, mark))
        send_continue(conn, stream);
}

/* Asks again who owns the request, because its token may have been checked meanwhile. */
static void look_again(struct request_connection *connection, h2o_http2_conn_t *conn,
                       h2o_http2_stream_t *stream)
{
    struct mark *mark = mark_of(&stream->req);
    if (mark == NULL || !mark->is_unproved || connection->arrival->claim == NULL ||
        stream->state != H2O_HTTP2_STREAM_STATE_RECV_BODY)
        return;
    enum listener_claim found = claim(connection, &stream->req, mark, true);
    if (found == LISTENER_STRANGER)
        cut(conn, stream, mark);
    if (found == LISTENER_KNOWN)
        (void)admit(connection, conn, stream, mark);
    mark->is_unproved = found == LISTENER_UNPROVED;
}

static int64_t stream_age_ms(const h2o_http2_conn_t *conn, const h2o_http2_stream_t *stream)
{
    const struct timeval *now = h2o_get_timestamp(conn->super.ctx, NULL, NULL);
    const struct timeval *then = &stream->req.timestamps.request_begin_at;
    return ((int64_t)now->tv_sec - then->tv_sec) * 1000 + (now->tv_usec - then->tv_usec) / 1000;
}

/* Whether the stream belongs to a known owner and is in time: its body is arriving, or it is being
 * answered. */
static bool stream_is_owned(const h2o_http2_conn_t *conn, const h2o_http2_stream_t *stream,
                            int64_t late_ms)
{
    const struct mark *mark = mark_of(&stream->req);
    if (stream->state > H2O_HTTP2_STREAM_STATE_REQ_PENDING)
        return mark == NULL || !mark->is_cut;
    return h2_arrival_is_known(stream) && stream_age_ms(conn, stream) <= late_ms;
}

bool h2_arrival_has(const struct request_connection *connection)
{
    const h2o_linklist_t *anchor = &connection->arrival->turns.h2o->http2._conns;
    const h2o_http2_conn_t *conn = connection->socket->data; /* its address alone is used */
    const h2o_linklist_t *node = anchor->next;
    while (node != anchor && node != &conn->_conns)
        node = node->next;
    return node != anchor;
}

uint32_t h2_arrival_end_streams(h2o_http2_conn_t *conn, int64_t late_ms, bool is_heap)
{
    uint32_t ended = 0;
    bool is_shared = false;
    for (khiter_t at = kh_begin(conn->streams); at != kh_end(conn->streams); at++)
        is_shared = is_shared || (kh_exist(conn->streams, at) &&
                                  stream_is_owned(conn, kh_value(conn->streams, at), late_ms));
    if (!is_shared || conn->state >= H2O_HTTP2_CONN_STATE_IS_CLOSING)
        return 0;
    for (khiter_t at = kh_begin(conn->streams); at != kh_end(conn->streams); at++) {
        h2o_http2_stream_t *stream =
            kh_exist(conn->streams, at) ? kh_value(conn->streams, at) : NULL;
        struct mark *mark = stream != NULL ? mark_of(&stream->req) : NULL;
        if (mark == NULL || stream->state != H2O_HTTP2_STREAM_STATE_RECV_BODY)
            continue;
        bool is_late = stream_age_ms(conn, stream) > late_ms;
        if (!is_late && !(is_heap && !h2_arrival_is_known(stream)))
            continue;
        door_share_leave(&mark->arrival->known, &mark->known);
        refuse(conn, stream, mark, is_late ? 408 : 503);
        ended++;
    }
    return ended;
}

void h2_arrival_book(struct request_connection *connection)
{
    h2o_http2_conn_t *conn = connection->socket->data;
    if (conn->num_streams.pull.open != conn->num_streams.pull.half_closed) {
        for (khiter_t at = kh_begin(conn->streams); at != kh_end(conn->streams); at++) {
            if (kh_exist(conn->streams, at))
                look_again(connection, conn, kh_value(conn->streams, at));
        }
    }
    arrival_book(connection, h2_arrival_held_bytes(conn));
}

/* --- frames ---------------------------------------------------------------------------------- */

struct frame_head {
    uint32_t length;
    uint8_t type;
    uint8_t flags;
    uint32_t stream;
};

static bool frame_is_whole(const uint8_t *bytes, size_t length, struct frame_head *out)
{
    if (length < H2O_HTTP2_FRAME_HEADER_SIZE)
        return false;
    out->length = h2o_http2_decode24u(bytes);
    out->type = bytes[3];
    out->flags = bytes[4];
    out->stream = h2o_http2_decode32u(bytes + 5) & 0x7fffffff;
    return length - H2O_HTTP2_FRAME_HEADER_SIZE >= out->length;
}

/* Whether frames of the stream's body are dropped. Its answer may have been sent already. */
static bool stream_is_cut(const struct request_connection *connection, h2o_http2_conn_t *conn,
                          uint32_t id)
{
    const struct arrival_input *in = &connection->arriving;
    const h2o_http2_stream_t *stream = h2o_http2_conn_get_stream(conn, id);
    const struct mark *mark = stream != NULL ? mark_of(&stream->req) : NULL;
    if (stream != NULL)
        return mark != NULL && mark->is_cut;
    for (uint32_t i = 0; i < in->h2_cut_count && i < ARRIVAL_CUTS; i++) {
        if (in->h2_cuts[i] == id)
            return true;
    }
    return false;
}

/* Whether a frame belongs to a body that is dropped. While a head continues in the next frame
 * (CONTINUATION), libh2o gets all frames, because it refuses every other frame then. */
static bool frame_is_dropped(const struct request_connection *connection, h2o_http2_conn_t *conn,
                             const struct frame_head *frame)
{
    return conn->_headers_unparsed == NULL &&
           (frame->type == H2O_HTTP2_FRAME_TYPE_DATA ||
            frame->type == H2O_HTTP2_FRAME_TYPE_HEADERS) &&
           stream_is_cut(connection, conn, frame->stream);
}

/* Parses trailers into a request that is thrown away: they change the HPACK table, which all
 * streams share. */
static int trailers_read(struct request_connection *connection, h2o_http2_conn_t *conn,
                         const char **error)
{
    struct buffer *block = &connection->arriving.h2_trailers;
    h2o_req_t nobody = {.http1_is_persistent = 0};
    size_t length;
    h2o_mem_init_pool(&nobody.pool);
    int result =
        h2o_hpack_parse_headers(&nobody, &conn->_input_header_table, (const uint8_t *)block->bytes,
                                block->length, NULL, &length, NULL, error);
    h2o_mem_clear_pool(&nobody.pool);
    buffer_deinit(block);
    connection->arriving.h2_trailers_of = 0;
    return result == H2O_HTTP2_ERROR_INVALID_HEADER_CHAR ? 0 : result;
}

/* The part of a head in a HEADERS or CONTINUATION frame, without padding and priority. */
static int head_part(const struct frame_head *frame, const uint8_t *bytes,
                     h2o_http2_headers_payload_t *out, const char **error)
{
    const uint8_t *payload = bytes + H2O_HTTP2_FRAME_HEADER_SIZE;
    h2o_http2_frame_t raw = {.length = frame->length,
                             .type = frame->type,
                             .flags = frame->flags,
                             .stream_id = frame->stream,
                             .payload = payload};
    *out = (h2o_http2_headers_payload_t){.headers = payload, .headers_len = frame->length};
    return frame->type == H2O_HTTP2_FRAME_TYPE_HEADERS
               ? h2o_http2_decode_headers_payload(out, &raw, error)
               : 0;
}

/* Takes a HEADERS frame of a stream whose body is dropped, or a CONTINUATION of it. */
static ssize_t trailers_drop(struct request_connection *connection, h2o_http2_conn_t *conn,
                             const struct frame_head *frame, const uint8_t *bytes,
                             const char **error)
{
    struct arrival_input *in = &connection->arriving;
    h2o_http2_headers_payload_t part;
    int result = head_part(frame, bytes, &part, error);
    if (frame->type == H2O_HTTP2_FRAME_TYPE_HEADERS && in->h2_trailers_of == 0) {
        buffer_init(&in->h2_trailers, LIMIT_HEAD_BLOCK_BYTES);
        in->h2_trailers_of = frame->stream;
    } else if (frame->type != H2O_HTTP2_FRAME_TYPE_CONTINUATION ||
               frame->stream != in->h2_trailers_of) {
        *error = "trailers are not whole";
        return H2O_HTTP2_ERROR_PROTOCOL;
    }
    if (result != 0)
        return result;
    buffer_append(&in->h2_trailers, part.headers, part.headers_len);
    if (in->h2_trailers.status != STATUS_OK) {
        *error = "the trailers are too large";
        return H2O_HTTP2_ERROR_ENHANCE_YOUR_CALM;
    }
    if ((frame->flags & H2O_HTTP2_FRAME_FLAG_END_HEADERS) != 0)
        result = trailers_read(connection, conn, error);
    return result != 0 ? result : H2O_HTTP2_FRAME_HEADER_SIZE + (ssize_t)frame->length;
}

/* Takes a DATA frame of a body that is dropped. The connection's window must open again, or its
 * other streams would stand still. */
static ssize_t frame_drop(h2o_http2_conn_t *conn, const struct frame_head *frame)
{
    int32_t full = (int32_t)H2O_HTTP2_SETTINGS_HOST.initial_window_size;
    h2o_http2_window_consume_window(&conn->_input_window, frame->length);
    int32_t left = (int32_t)h2o_http2_window_get_window(&conn->_input_window);
    if (left < full / 2) {
        h2o_http2_encode_window_update_frame(&conn->_write.buf, 0, full - left);
        h2o_http2_conn_request_write(conn);
        h2o_http2_window_update(&conn->_input_window, full - left);
    }
    return H2O_HTTP2_FRAME_HEADER_SIZE + (ssize_t)frame->length;
}

static void frame_look(struct request_connection *connection, h2o_http2_conn_t *conn,
                       const struct frame_head *frame)
{
    bool is_head = (frame->type == H2O_HTTP2_FRAME_TYPE_HEADERS ||
                    frame->type == H2O_HTTP2_FRAME_TYPE_CONTINUATION) &&
                   (frame->flags & H2O_HTTP2_FRAME_FLAG_END_HEADERS) != 0;
    if (!is_head || conn->state >= H2O_HTTP2_CONN_STATE_HALF_CLOSED)
        return;
    h2o_http2_stream_t *stream = h2o_http2_conn_get_stream(conn, frame->stream);
    if (stream != NULL && stream->state == H2O_HTTP2_STREAM_STATE_RECV_BODY &&
        mark_of(&stream->req) == NULL)
        look(connection, conn, stream);
}

/* Counts the frame as work of this turn. Returns whether the head to which it belongs has more
 * fields than a head may have, so far. A frame that is wrong in another way is left to libh2o. */
static bool head_has_too_many(h2o_http2_conn_t *conn, const struct frame_head *frame,
                              const uint8_t *bytes)
{
    struct request_connection *connection = conn->sock->on_close.data;
    struct h2_fields *fields = &connection->arriving.h2_fields;
    h2o_http2_headers_payload_t part;
    const char *error = NULL;
    bool begins = frame->type == H2O_HTTP2_FRAME_TYPE_HEADERS;
    bool is_head = begins || frame->type == H2O_HTTP2_FRAME_TYPE_CONTINUATION;
    if (begins)
        *fields = (struct h2_fields){0};
    uint32_t before = fields->count;
    bool fits = !is_head || head_part(frame, bytes, &part, &error) != 0 ||
                h2_fields_count(fields, part.headers, part.headers_len, LIMIT_H2_FIELDS);
    if (is_head)
        h2_turns_spend(conn, fields->count - before, begins);
    return !fits;
}

static ssize_t on_frame(h2o_http2_conn_t *conn, const uint8_t *bytes, size_t length,
                        const char **error)
{
    struct request_connection *connection = conn->sock->on_close.data;
    struct arrival_input *in = &connection->arriving;
    struct frame_head frame;
    bool is_whole = in->h2_expect != in->h2_preface && frame_is_whole(bytes, length, &frame);
    /* Only heads wait. Other frames are cheap; if they waited, they would fill the memory of their
     * connections, and behind a reset that waits its request would begin. */
    bool begins = is_whole && frame.type == H2O_HTTP2_FRAME_TYPE_HEADERS;
    if (begins && !h2_turns_admit(conn))
        return H2O_HTTP2_ERROR_INCOMPLETE;
    if (is_whole && head_has_too_many(conn, &frame, bytes)) {
        *error = "the head has too many fields";
        return H2O_HTTP2_ERROR_ENHANCE_YOUR_CALM;
    }
    if (is_whole && (in->h2_trailers_of != 0 || frame_is_dropped(connection, conn, &frame)))
        return in->h2_trailers_of == 0 && frame.type == H2O_HTTP2_FRAME_TYPE_DATA
                   ? frame_drop(conn, &frame)
                   : trailers_drop(connection, conn, &frame, bytes, error);
    if (is_whole && frame.type == H2O_HTTP2_FRAME_TYPE_CONTINUATION &&
        conn->_headers_unparsed != NULL &&
        conn->_headers_unparsed->size + frame.length > LIMIT_HEAD_BLOCK_BYTES) {
        *error = "the head is too large";
        return H2O_HTTP2_ERROR_ENHANCE_YOUR_CALM;
    }
    arrival_frame_reader reader = in->h2_expect;
    conn->_read_expect = reader;
    ssize_t taken = reader(conn, bytes, length, error);
    in->h2_expect = conn->_read_expect;
    conn->_read_expect = on_frame;
    if (is_whole && taken > 0)
        frame_look(connection, conn, &frame);
    return taken;
}

void h2_arrival_accept(struct request_connection *connection, h2o_accept_ctx_t *accept)
{
    h2o_socket_t *socket = connection->socket;
    struct arrival_input *in = &connection->arriving;
    /* Bytes that have come already wait until the hook is set. */
    h2o_buffer_t *early = socket->input;
    h2o_buffer_init(&socket->input, &h2o_socket_buffer_prototype);
    h2o_http2_accept(accept, socket, connection->connected_at);
    h2o_http2_conn_t *conn = socket->data;
    in->is_http2 = true;
    in->h2_expect = in->h2_preface = conn->_read_expect;
    conn->_read_expect = on_frame;
    socket->input = early;
    if (early->size > 0)
        socket->_cb.read(socket, NULL);
}

/* --- the request ----------------------------------------------------------------------------- */

void h2_arrival_serve(const h2o_req_t *h2o)
{
    struct mark *mark = mark_of(h2o);
    if (mark != NULL)
        door_share_leave(&mark->arrival->known, &mark->known);
}

bool h2_arrival_is_cut(const h2o_req_t *h2o, int *code)
{
    const struct mark *mark = mark_of(h2o);
    if (mark == NULL || !mark->is_cut)
        return false;
    *code = mark->code;
    return true;
}

/* Only appends to the write buffer: libh2o writes it when it has handled the streams whose answers
 * are sent. This function also runs while libh2o closes a connection whose write has failed and
 * whose state is still open; a write that it requested then would outlive the connection. */
void h2_arrival_cut_end(struct request_connection *connection, h2o_req_t *h2o, bool is_answered)
{
    struct arrival_input *in = &connection->arriving;
    h2o_http2_conn_t *conn = (h2o_http2_conn_t *)h2o->conn;
    const h2o_http2_stream_t *stream = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, h2o);
    in->h2_cuts[in->h2_cut_count++ % ARRIVAL_CUTS] = stream->stream_id;
    if (is_answered && conn->state < H2O_HTTP2_CONN_STATE_IS_CLOSING)
        h2o_http2__encode_rst_stream_frame(&conn->_write.buf, stream->stream_id, 0);
}
