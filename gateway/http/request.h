/* request: an HTTP request and its answer, as handlers see them, without libh2o.
 *
 * Owns:     nothing by itself: all memory belongs to libh2o's request and is freed with it.
 * Thread:   the loop's thread only.
 * Cost:     http_alloc is O(1); a stream copies each write once.
 * Not here: who sent a request and what it means (edge, engine_http, admin).
 *
 * The life of a request:
 *
 *   handler(request) ── http_respond ──────────────────────────────► gone
 *                    └─ http_stream_begin ─ write* ─ http_stream_end ► gone
 *   The client may leave at any point. http_on_gone's function runs once, after that or after a
 *   normal end; from then on the handler must not use the request.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/peer_certificate.h"
#include "gateway/http/http_header.h"
#include "gateway/http/loop.h"

struct http_request;

enum { HTTP_BODY_KEPT = 4096 }; /* to free fewer bytes would cost more than to keep them */

struct loop *http_loop(struct http_request *request);
struct slice http_method(const struct http_request *request); /* GET for a HEAD that has a route */
struct slice http_path(const struct http_request *request);   /* without the query, not decoded */
struct slice http_query(const struct http_request *request);  /* after '?', or empty */
struct slice http_body(const struct http_request *request);
/* The request announced a body that was not awaited, because its sender was not known or had no
 * memory left. */
bool http_body_is_cut(const struct http_request *request);
/* Frees the body before the request is over, if it has more than HTTP_BODY_KEPT bytes. Slices of
 * the request that the caller has are invalid afterwards. */
void http_body_drop(struct http_request *request);
/* Copies the body into a buffer of its size, which the caller frees, and then drops it as
 * http_body_drop does. NO_MEMORY: nothing has changed. */
enum status http_body_take(struct http_request *request, struct buffer *out);
/* Value of the first header of this name, in lower case; bytes NULL when there is none. */
struct slice http_header_get(const struct http_request *request, const char *name);
/* How many headers of that name there are. */
size_t http_header_count(const struct http_request *request, const char *name);
/* The decoded part of the path for the route's first {id} or {rest} (0), or the second (1); empty
 * when the route has none. */
struct slice http_path_argument(const struct http_request *request, size_t index);
/* "127.0.0.1:1234", "[::1]:1234" or "unix", for audit and access logs. */
void http_peer_name(const struct http_request *request, char *out, size_t capacity);
/* The client's valid certificate, or NULL when it sent none. Lives as long as the request.
 * `is_required`: the listener requires client certificates. */
const struct peer_certificate *http_peer_certificate(const struct http_request *request,
                                                     bool *is_required);
/* The request's id: "req_" and 32 random hex digits. Listeners with makes_request_ids send it as
 * x-request-id. */
struct slice http_request_id(const struct http_request *request);

/* Memory that is freed with the request. Never NULL: without memory libh2o ends the process. */
void *http_alloc(struct http_request *request, size_t bytes);

/* Sets the function that runs once when the request is over: after the answer, or because the
 * client left (is_early: before the answer was complete). The connection is watched while the
 * request waits, so it runs then too. A second call replaces the function. */
void http_on_gone(struct http_request *request, void (*gone)(void *context, bool is_early),
                  void *context);

/* HTTP/1.1 only: sets the function that runs once when the client shuts down its sending side. The
 * answer may go on, and the connection is closed after it. Without this function (every public
 * listener) such a client counts as gone. If the client no longer reads, the next write shows
 * it. */
void http_on_half_close(struct http_request *request, void (*half_closed)(void *context),
                        void *context);

/* Call it when the request's sender is authenticated: its connection gives way to no new one. */
void http_prove(struct http_request *request);

/* Adds a header to the answer; name and value are copied. Does nothing for an empty value, when the
 * answer has begun, or without a request: NULL is allowed. */
void http_add_header(struct http_request *request, const char *name, struct slice value);

/* Sends a whole answer. Header values and body are copied, content-length is set, and the request's
 * body is dropped. */
void http_respond(struct http_request *request, int code, const struct http_header *headers,
                  size_t header_count, struct slice body);
/* The same, with content-type application/json. */
void http_respond_json(struct http_request *request, int code, struct slice body);

/* Sends a whole answer without copying it: `body` belongs to the request afterwards, and the
 * caller's buffer is empty. It is sent in pieces, each when the one before is written. When a piece
 * is not written within the listener's unread_ms_max, the stream or connection is closed. */
void http_respond_take(struct http_request *request, int code, const struct http_header *headers,
                       size_t header_count, struct buffer *body);
/* Memory of the answer's buffers, in bytes. */
size_t http_answer_bytes(const struct http_request *request);

/* Begins a streamed answer. Writes are buffered; http_stream_pending says how many bytes are not
 * written to the connection yet, and `drained` (may be NULL) runs when it has fallen to 0. Over
 * HTTP/1.1 the head is sent with the first bytes, and a client can only see an abort when the code
 * is 200. */
void http_stream_begin(struct http_request *request, int code, const struct http_header *headers,
                       size_t header_count, void (*drained)(void *context), void *context);
void http_stream_write(struct http_request *request, struct slice bytes);
size_t http_stream_pending(const struct http_request *request);
/* Ends the answer after all its bytes. The request may be gone when this function, the abort, or a
 * respond returns; http_on_gone's function has run then. */
void http_stream_end(struct http_request *request);
/* Ends the answer after the bytes written before, so that the client sees that it is incomplete
 * (RST_STREAM, or no last chunk). Later writes, ends and aborts do nothing. */
void http_stream_abort(struct http_request *request);
/* True after http_respond or http_stream_begin. */
bool http_is_answered(const struct http_request *request);
