/* h2_arrival: HTTP/2 requests whose head has come and whose body is arriving.
 *
 * Owns:     a struct for each such stream, which is freed with the stream.
 * Thread:   the loop's thread.
 * Cost:     reads the head of each frame; O(streams) to book.
 * Not here: shares and claims (arrival), what a sweep ends (listener, h2_sweep).
 *
 * The hook stands in front of libh2o's reader of frames (`_read_expect`). It answers
 * `Expect: 100-continue`, which libh2o does not do over HTTP/2. It passes on requests of strangers
 * without their bodies, and drops the frames of these bodies.
 */
#pragma once

#include <stdbool.h>

#include "gateway/http/h2o_compat_http2.h"

struct request_connection;

/* Replaces h2o_http2_accept(). The connection may be freed when it returns. */
void h2_arrival_accept(struct request_connection *connection, h2o_accept_ctx_t *accept);
/* Asks again for owners that are unproved, and books the memory of the connection. */
void h2_arrival_book(struct request_connection *connection);

/* Bytes that libh2o has allocated for a connection's requests that are not whole, except bodies of
 * known owners. */
size_t h2_arrival_held_bytes(const h2o_http2_conn_t *conn);
/* Whether the stream's body is booked to a known owner. */
bool h2_arrival_is_known(const h2o_http2_stream_t *stream);

/* Whether libh2o still has the HTTP/2 connection. It frees it when it has no more to say, which may
 * be before the socket is closed. O(connections). */
bool h2_arrival_has(const struct request_connection *connection);
/* Ends streams whose bodies are arriving: those older than `late_ms` with 408 and, with `is_heap`,
 * those without a known owner with 503. Returns how many. It does nothing and returns 0 when no
 * known owner has a stream on the connection that is in time; then the caller may end the
 * connection. */
uint32_t h2_arrival_end_streams(h2o_http2_conn_t *conn, int64_t late_ms, bool is_heap);

/* The request is whole, and accounts for its bytes itself from now on. */
void h2_arrival_serve(const h2o_req_t *h2o);

/* Whether the request was passed on without its body. `*code` is the code that refuses it, or 0. */
bool h2_arrival_is_cut(const h2o_req_t *h2o, int *code);
/* The stream of such a request is over; its frames are dropped from now on. If it was answered, the
 * client is told that the rest of the body need not come (RST_STREAM with NO_ERROR). */
void h2_arrival_cut_end(struct request_connection *connection, h2o_req_t *h2o, bool is_answered);
