/* h2_arrival: requests of HTTP/2 whose head is there and whose body is on its way.
 *
 * Owns:     a mark on each such stream, which dies with it.
 * Thread:   the loop's thread.
 * Cost:     a look at each frame's head; O(streams) to book.
 * Not here: shares and claims (arrival), what a sweep ends (h2_sweep).
 *
 * The hook is in front of libh2o's own reader of frames (`_read_expect`). It answers
 * `Expect: 100-continue`, which libh2o does not over HTTP/2, hands requests of strangers on without
 * their bodies, and drops the DATA frames of those.
 */
#pragma once

#include <stdbool.h>

#include "gateway/http/h2o_compat_http2.h"

struct request_connection;

/* Instead of h2o_http2_accept. The connection may be gone when it returns. */
void h2_arrival_accept(struct request_connection *connection, h2o_accept_ctx_t *accept);
/* Books what the connection holds. */
void h2_arrival_book(struct request_connection *connection);

/* What a connection holds of requests that are not whole, but for bodies of owners that are known:
 * by what libh2o has allocated for it. */
size_t h2_arrival_held_bytes(const h2o_http2_conn_t *conn);
/* Whether the stream's body is booked to an owner that is known. */
bool h2_arrival_is_known(const h2o_http2_stream_t *stream);

/* Ends streams whose bodies are on their way, and no others: those older than `late_ms` with 408,
 * and with `is_heap` those of nobody known with 503. Returns how many; 0, and nothing is done, when
 * nobody known has a stream on the connection that is in time: then it may be ended as a whole. */
uint32_t h2_arrival_end_streams(h2o_http2_conn_t *conn, int64_t late_ms, bool is_heap);

/* The request is whole: its bytes are the request's from here on. */
void h2_arrival_serve(const h2o_req_t *h2o);

/* Whether the request was handed on without its body; `code` is 0, or what it is refused with. */
bool h2_arrival_is_cut(const h2o_req_t *h2o, int *code);
/* Its stream is over: what still comes of it is dropped. When it has been answered, the client is
 * told that the rest of the body need not come. */
void h2_arrival_cut_end(struct request_connection *connection, h2o_req_t *h2o, bool is_answered);
