/* request: one HTTP request and its answer, as handlers see it: no libh2o above this line.
 *
 * Owns:     nothing itself; everything lives with the h2o request and dies with it.
 * Thread:   the loop's thread only.
 * Cost:     http_alloc is a bump of the pool; a stream copies each write once.
 * Not here: who is calling, what is asked (edge, engine_http, admin).
 *
 * The life of a request:
 *
 *   handler(request) ── http_respond ──────────────────────────────► gone
 *                    └─ http_stream_begin ─ write* ─ http_stream_end ► gone
 *   At any point the client may leave; then on_gone runs, once, and the request must not be touched
 *   again. It also runs after a normal end: it is the one place where a handler lets go.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/peer_certificate.h"
#include "gateway/http/http_header.h"
#include "gateway/http/loop.h"

struct http_request;

enum { HTTP_BODY_KEPT = 4096 }; /* to move a head costs more than so many bytes do */

struct loop *http_loop(struct http_request *request);
struct slice http_method(const struct http_request *request); /* GET for a HEAD that has a route */
struct slice http_path(const struct http_request *request);   /* without the query, not decoded */
struct slice http_query(const struct http_request *request);  /* after '?', or empty */
struct slice http_body(const struct http_request *request);
/* It announced a body that was not waited for, since its sender was taken for a stranger. */
bool http_body_is_cut(const struct http_request *request);
/* Gives the body's memory back before the request is over: a body of more than HTTP_BODY_KEPT bytes
 * is empty afterwards, and slices of the request that were asked for before are stale. */
void http_body_drop(struct http_request *request);
/* The same, but the caller gets the bytes, in a buffer of their size. NO_MEMORY; then nothing has
 * changed. */
enum status http_body_take(struct http_request *request, struct buffer *out);
/* Value of the first header of that lower-case name; bytes NULL when there is none. */
struct slice http_header_get(const struct http_request *request, const char *name);
/* How many headers of that name there are. */
size_t http_header_count(const struct http_request *request, const char *name);
/* The part of the path that the route's {id} or {rest} stood for (0 or 1), decoded, or empty. */
struct slice http_path_argument(const struct http_request *request, size_t index);
/* "127.0.0.1:1234", for audit and access logs. */
void http_peer_name(const struct http_request *request, char *out, size_t capacity);
/* The certificate with which the client made its connection, verified; NULL: it showed none. Lives
 * as long as the request. `is_required`: the listener wants one of everybody. */
const struct peer_certificate *http_peer_certificate(const struct http_request *request,
                                                     bool *is_required);
/* Id made when the request arrived: "req_" and 32 hex digits; already in the answer's headers as
 * x-request-id on public listeners. */
struct slice http_request_id(const struct http_request *request);

/* Memory that dies with the request. Never NULL: the pool ends the process when there is none. */
void *http_alloc(struct http_request *request, size_t bytes);

/* Runs once when the request is over, however it ended: answered, or the client left (is_early:
 * before the answer was complete). Works from the first moment: the connection is watched while a
 * handler waits. Setting it again puts the later one into the place of the earlier. */
void http_on_gone(struct http_request *request, void (*gone)(void *context, bool is_early),
                  void *context);

/* HTTP/1.1 only: the client has shut down its sending side but may still read. With this set, that
 * is not the end of the request: `half_closed` runs once, the answer may go on, and the connection
 * is closed behind it. Without it (every public listener) such a client counts as gone. Whether it
 * still reads shows at the next write: then on_gone runs. */
void http_on_half_close(struct http_request *request, void (*half_closed)(void *context),
                        void *context);

/* The request's sender was authenticated: its connection gives way to no newcomer. */
void http_prove(struct http_request *request);

/* A whole answer. Header values and body are copied. content-length is set. The request's body is
 * dropped. */
void http_respond(struct http_request *request, int code, const struct http_header *headers,
                  size_t header_count, struct slice body);
/* The same, with content-type application/json. */
void http_respond_json(struct http_request *request, int code, struct slice body);

/* A whole answer that takes `body` over, which is empty afterwards: there is no second copy of it.
 * The connection gets it in pieces, each when the client has taken the one before; a client that
 * does not take a piece in LIMIT_UNREAD_MS loses the connection. */
void http_respond_take(struct http_request *request, int code, const struct http_header *headers,
                       size_t header_count, struct buffer *body);
/* Memory that the answer holds until the client has taken it. */
size_t http_answer_bytes(const struct http_request *request);

/* A streamed answer. Bytes written are buffered; http_stream_pending tells how many the connection
 * has not taken yet, and `drained` (may be NULL) runs when that number has fallen to 0. Over
 * HTTP/1.1 the head leaves with the first bytes, and a cut is only visible when the code is 200. */
void http_stream_begin(struct http_request *request, int code, const struct http_header *headers,
                       size_t header_count, void (*drained)(void *context), void *context);
void http_stream_write(struct http_request *request, struct slice bytes);
size_t http_stream_pending(const struct http_request *request);
/* Ends the answer cleanly once all bytes are out. The request may be gone when this, the abort, or
 * a respond returns; on_gone says so. */
void http_stream_end(struct http_request *request);
/* Ends it so that the client sees a broken stream (RST_STREAM, or no last chunk), after what was
 * written before. Later writes, ends and aborts do nothing. */
void http_stream_abort(struct http_request *request);
/* True after http_respond or http_stream_begin. */
bool http_is_answered(const struct http_request *request);
