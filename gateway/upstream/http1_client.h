/* http1_client: HTTP/1.1 exchanges with one server, over a Unix socket or TCP; it tells exactly how
 * each answer ended.
 *
 * Owns:     the connections to one server (last in, first out, limited) and its exchanges.
 * Thread:   the loop's thread.
 * Cost:     two allocations for an exchange, two more for a new connection; a body is not buffered
 *           beyond one read.
 * Not here: what the bytes of an answer mean (edge_stream), how a head is parsed (http1_response).
 *
 *   exchange ── connect ── write ── head ── body* ── ended(complete | cut | cancelled)
 *
 * Of libh2o it uses h2o_socket and the exported phr_* parsers, nothing else.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "config/base/slice.h"
#include "gateway/http/loop.h"

struct http1_client;
struct http1_exchange;

/* A body of up to so many bytes is copied behind the head. For such a body the copy costs no more
 * than a second part of the write. */
enum { HTTP1_CLIENT_COPIED_BYTES = 4096 };

struct http1_client_options {
    struct loop *loop;
    const char *unix_path;    /* the engine's socket; NULL: `address` */
    uint32_t connections_max; /* idle connections included */
    uint32_t connect_timeout_ms;
    uint32_t head_timeout_ms; /* from the request's last byte to the end of the answer's head */
    uint32_t idle_timeout_ms; /* between two reads of a body that is neither paused nor standing */
    /* The user whose process must listen at the path (SO_PEERCRED); -1 accepts every user. */
    int64_t peer_uid;
    /* An address of the Internet, which is copied; its length is that of its family. */
    const struct sockaddr *address;
};

/* INVALID when the path is too long for a Unix socket, NO_MEMORY. */
enum status http1_client_create(struct http1_client **out,
                                const struct http1_client_options *options);
/* Ends every exchange with CANCELLED first. */
void http1_client_destroy(struct http1_client *client);

/* The head of an answer, borrowed for the call. */
struct http1_head {
    int code;
    struct slice content_type;  /* empty = none */
    uint32_t retry_after_ms;    /* 0 = none, or malformed */
    uint32_t protocol;          /* x-banyan-protocol; 0 = none, or malformed */
    struct slice unconstrained; /* x-banyan-unconstrained; empty = none */
};

struct http1_callbacks {
    void (*head)(void *context, const struct http1_head *head);
    /* Decoded bytes of the body, borrowed for the call. */
    void (*body)(void *context, struct slice bytes);
    /* The last callback, called exactly once. The exchange is not valid afterwards.
     *   OK           the body is complete by its own framing. A body that ends with its connection
     *                is always complete in this sense, so OK proves little for it.
     *   UNAVAILABLE  nothing could be connected, or no byte of an answer came. The request can be
     *                sent again safely if !http1_exchange_is_sent().
     *   FORBIDDEN    another user's process listens at the path
     *   PROTOCOL     the answer is malformed, or the engine closed before it was complete
     *   IO           the connection failed before the answer was complete
     *   DEADLINE     the head, or more of the body, did not come in time
     *   CANCELLED    the caller cancelled or half-closed it, or the client was destroyed */
    void (*ended)(void *context, enum status status);
};

/* Starts an exchange; `*out` is valid until `ended`. `head` is the request's head without the last
 * line's end and the blank line ("POST /v1/… HTTP/1.1\r\nhost: …"); content-length is added. The
 * head is copied, and so is a body of up to HTTP1_CLIENT_COPIED_BYTES. A larger body must stay
 * valid until `ended`, or until http1_exchange_is_written() is true. BUSY when connections_max
 * connections are in use, NO_MEMORY. */
enum status http1_exchange_start(struct http1_client *client, struct slice head, struct slice body,
                                 const struct http1_callbacks *callbacks, void *context,
                                 struct http1_exchange **out);
/* Stops and resumes reading from the engine (back-pressure). */
void http1_exchange_pause(struct http1_exchange *exchange);
void http1_exchange_resume(struct http1_exchange *exchange);
/* While `is_standing` is set, idle_timeout_ms does not apply: the engine has said that the answer
 * stands still, so its silence is no failure. */
void http1_exchange_stand(struct http1_exchange *exchange, bool is_standing);
/* Shuts down our side of the connection. The engine then cancels the request, sends its final
 * record and closes; `body` is called for what it sends. */
void http1_exchange_half_close(struct http1_exchange *exchange);
/* Closes the connection; calls `ended` with CANCELLED before it returns. */
void http1_exchange_cancel(struct http1_exchange *exchange);
/* Whether the whole request was written and an answer has begun: the body is not read any more. */
bool http1_exchange_is_written(const struct http1_exchange *exchange);
/* Whether bytes of the request went to any connection, so that an engine may have begun it. */
bool http1_exchange_is_sent(const struct http1_exchange *exchange);
