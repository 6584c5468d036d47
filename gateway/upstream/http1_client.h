/* http1_client: HTTP/1.1 requests to an engine, with the truth about how an answer ended.
 *
 * Owns:     a pool of connections to one upstream (last in first out, capped), exchanges under way.
 * Thread:   the loop's thread.
 * Cost:     two allocations an exchange; bodies are not buffered beyond one read.
 * Not here: what the bytes mean (edge_stream), which engine (engine/fleet_route).
 *
 *   exchange ── connect ── write ── head ── body* ── ended(complete | cut | cancelled)
 *
 * Of libh2o it uses h2o_socket alone, and the exported phr_* parsers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "gateway/http/loop.h"

struct http1_client;
struct http1_exchange;

enum { HTTP1_CLIENT_COPIED_BYTES = 4096 }; /* a second part of a write costs as much as a copy */

struct http1_client_options {
    struct loop *loop;
    const char *unix_path; /* the engine's socket */
    uint32_t connections_max;
    uint32_t connect_timeout_ms;
    uint32_t head_timeout_ms; /* from the request's last byte to the answer's head */
    uint32_t idle_timeout_ms; /* between two reads of a body; not while it is paused or stands */
    /* Whose process must listen there (SO_PEERCRED), or -1: anybody who can bind the path. */
    int64_t peer_uid;
};

enum status http1_client_create(struct http1_client **out,
                                const struct http1_client_options *options);
/* Ends every exchange (ended: CANCELLED) first. */
void http1_client_destroy(struct http1_client *client);

/* What an answer's head says, borrowed for the call. */
struct http1_head {
    int code;
    struct slice content_type; /* or empty */
    uint32_t retry_after_ms;   /* 0: not said, or nothing that can be understood */
    uint32_t protocol;         /* x-banyan-protocol; 0: not said */
};

struct http1_callbacks {
    void (*head)(void *context, const struct http1_head *head);
    /* Body bytes, un-chunked, borrowed for the call. */
    void (*body)(void *context, struct slice bytes);
    /* Last call, exactly once: OK only when the body was complete by its own framing (an answer
     * with neither length nor chunks ends with its connection, and then OK proves little);
     * UNAVAILABLE when nothing could be connected or no byte of an answer came (safe to retry when
     * !http1_exchange_is_sent), FORBIDDEN when another user's process
     * listens, PROTOCOL or IO when it was cut, DEADLINE, CANCELLED. */
    void (*ended)(void *context, enum status status);
};

/* `head` is the whole request head without the final blank line ("POST /v1/… HTTP/1.1\r\nhost: …");
 * content-length is added. The head is copied, and a body of up to HTTP1_CLIENT_COPIED_BYTES; a
 * larger one stays the caller's until `ended`, or until a callback finds it _is_written. BUSY when
 * the pool is full. */
enum status http1_exchange_start(struct http1_client *client, struct slice head, struct slice body,
                                 const struct http1_callbacks *callbacks, void *context,
                                 struct http1_exchange **out);
/* Stops and resumes reading: back-pressure. */
void http1_exchange_pause(struct http1_exchange *exchange);
void http1_exchange_resume(struct http1_exchange *exchange);
/* The engine has said that the answer stands still, or goes on: meanwhile silence is no failure. */
void http1_exchange_stand(struct http1_exchange *exchange, bool is_standing);
/* Shuts down our side: the engine cancels, sends its final record and closes; body goes on. */
void http1_exchange_half_close(struct http1_exchange *exchange);
/* Closes at once; `ended` is called with CANCELLED before this returns. */
void http1_exchange_cancel(struct http1_exchange *exchange);
/* Whether the whole request has left and an answer has begun: the body is not read again. */
bool http1_exchange_is_written(const struct http1_exchange *exchange);
/* Whether bytes of the request were given to any connection: an engine may have begun it. */
bool http1_exchange_is_sent(const struct http1_exchange *exchange);
