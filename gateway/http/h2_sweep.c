#include "gateway/http/h2_sweep.h"

#include "gateway/http/h2_arrival.h"

static int64_t age_ms(const struct timeval *now, const struct timeval *then)
{
    return ((int64_t)now->tv_sec - then->tv_sec) * 1000 + (now->tv_usec - then->tv_usec) / 1000;
}

static size_t buffer_bytes(const h2o_buffer_t *buffer)
{
    return buffer != NULL ? buffer->size : 0;
}

static void look_at_streams(h2o_http2_conn_t *conn, const struct timeval *now,
                            struct h2_sweep_view *view)
{
    view->body_bytes = buffer_bytes(conn->_headers_unparsed);
    for (khiter_t at = kh_begin(conn->streams); at != kh_end(conn->streams); at++) {
        if (!kh_exist(conn->streams, at))
            continue;
        const h2o_http2_stream_t *stream = kh_value(conn->streams, at);
        if (stream->state == H2O_HTTP2_STREAM_STATE_IDLE ||
            stream->state > H2O_HTTP2_STREAM_STATE_REQ_PENDING)
            continue;
        view->streams_waiting++;
        if (stream->state == H2O_HTTP2_STREAM_STATE_REQ_PENDING)
            continue;
        if (!h2_arrival_is_known(stream))
            view->body_bytes += buffer_bytes(stream->_req_body);
        int64_t age = age_ms(now, &stream->req.timestamps.request_begin_at);
        if (age > view->oldest_body_ms)
            view->oldest_body_ms = age;
    }
}

void h2_sweep_look(h2o_context_t *h2o,
                   void (*each)(void *context, const struct h2_sweep_view *view), void *context)
{
    const struct timeval *now = h2o_get_timestamp(h2o, NULL, NULL);
    h2o_linklist_t *anchor = &h2o->http2._conns;
    h2o_linklist_t *next;
    for (h2o_linklist_t *node = anchor->next; node != anchor; node = next) {
        next = node->next;
        h2o_http2_conn_t *conn = H2O_STRUCT_FROM_MEMBER(h2o_http2_conn_t, _conns, node);
        struct h2_sweep_view view = {
            .socket = conn->sock,
            .streams_opened = (conn->pull_stream_ids.max_open + 1) / 2, /* odd numbers */
            .held_bytes = h2_arrival_held_bytes(conn),
            .unsent_bytes =
                buffer_bytes(conn->_write.buf) + buffer_bytes(conn->_write.buf_in_flight),
        };
        look_at_streams(conn, now, &view);
        each(context, &view);
    }
}

bool h2_sweep_reset(h2o_req_t *request)
{
    h2o_http2_conn_t *conn = (h2o_http2_conn_t *)request->conn;
    h2o_http2_stream_t *stream = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, request);
    if (conn->_write.buf_in_flight != NULL || conn->state >= H2O_HTTP2_CONN_STATE_IS_CLOSING)
        return false;
    h2o_http2_encode_rst_stream_frame(&conn->_write.buf, stream->stream_id,
                                      -H2O_HTTP2_ERROR_CANCEL);
    h2o_http2_conn_request_write(conn);
    h2o_http2_stream_reset(conn, stream);
    return true;
}

/* libh2o uses the buffer of a stream while it receives, and frees it at the stream's end if there
 * is one. */
void h2_sweep_drop_body(h2o_req_t *request)
{
    h2o_http2_stream_t *stream = H2O_STRUCT_FROM_MEMBER(h2o_http2_stream_t, req, request);
    request->entity = (h2o_iovec_t){NULL, 0};
    if (stream->_req_body == NULL || stream->state <= H2O_HTTP2_STREAM_STATE_REQ_PENDING)
        return;
    h2o_buffer_dispose(&stream->_req_body);
}
