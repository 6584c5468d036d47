/* limits_upstream: bounds of what a foreign server may send, and of what waits for it.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: limits of all other things (limits).
 */
#pragma once

#include "config/base/limits.h"

/* One event of a stream, or an answer that is no stream. A tool call with long arguments that comes
 * in one piece is some 100 KiB. */
#define LIMIT_UPSTREAM_EVENT_BYTES (1024 * 1024)
/* Tokens of a choice that one event may tell. A server that speculates tells some ten. */
#define LIMIT_UPSTREAM_EVENT_TOKENS 256
/* Answers of a server to questions at start: lists of models, settings with a chat template. */
#define LIMIT_UPSTREAM_PROBE_BYTES (4 * 1024 * 1024)
/* Requests that are sent to a server at a time: as many as the face admits. */
#define LIMIT_UPSTREAM_REQUESTS LIMIT_REQUESTS_IN_ENGINE
/* Servers behind one adapter: as many as the sandbox opens ports. */
#define LIMIT_POOL_ENGINES 16
/* Addresses of one name that are tried: IPv6 and IPv4 of a machine with several networks. */
#define LIMIT_UPSTREAM_ADDRESSES 16
/* The key that the server wants, with its end of line. */
#define LIMIT_UPSTREAM_KEY_BYTES 1024

/* Milliseconds. A connect in a data centre takes one; a long prompt is computed for minutes before
 * the first byte of its answer. */
#define LIMIT_UPSTREAM_CONNECT_MS 2000
#define LIMIT_UPSTREAM_HEAD_MS    600000
#define LIMIT_UPSTREAM_PROBE_MS   5000
/* A server that has answered before must answer again within this time. One thread asks all, so one
 * that hangs holds up the questions to the others. */
#define LIMIT_POOL_QUESTION_MS 2000
/* How often deadlines of requests are looked at. */
#define LIMIT_UPSTREAM_LOOK_MS 50

/* A server is asked again so often what it still computes for clients that have left: at first, and
 * at most. */
#define LIMIT_UPSTREAM_GHOST_MS     100
#define LIMIT_UPSTREAM_GHOST_MS_MAX 2000
/* Ghosts are forgotten when the first of them is older than this. */
#define LIMIT_UPSTREAM_GHOST_MOST_MS 60000
