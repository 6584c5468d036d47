/* h2o_compat: the one place that includes libh2o's headers, as system headers with its flavour set.
 *
 * Owns:     the choice of flavour (evloop).
 * Thread:   –
 * Cost:     –
 * Not here: any behaviour.
 *
 * Facts about libh2o 2.2.5 that the code above relies on, each read in its source:
 *   - A write or a send from outside the loop's callbacks is completed at the next turn of the
 * loop.
 *   - h2o_send with a last state may dispose of the request before it returns (HTTP/1.0, empty
 * send).
 *   - An h1 connection is not read while its request runs; its input buffer still begins with the
 *     request's head, names lowered in place.
 *   - A server's SSL is made when the first bytes of its client come; until then its context is
 *     only pointed to.
 *   - The data of the BIO under a socket's SSL is the h2o_socket_t; on_close.data of the socket is
 *     ours from before the handshake.
 *   - A socket's reader is `_cb.read`, called behind the decoding of all that one read brought;
 *     HTTP/1 sets its own anew for each request. HTTP/2 reads frames by `_read_expect`.
 *   - A buffer doubles when it is full, is never made smaller, and is freed when it is empty.
 *   - HTTP/1 copies a head that announces a body out of the input, where the body then comes behind
 *     it; a reader of a body keeps offsets, no pointers.
 *   - HTTP/2 answers DATA for a stream whose request it has handed on with RST_STREAM.
 *   - It writes to standard error: unknown HTTP/2 frame types ("skipping frame"), and epoll events
 *     of sockets that nobody polls, at most one line a minute.
 */
#pragma once

#define H2O_USE_LIBUV 0

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wundef"
#include <h2o.h>
#include <h2o/http1.h>
#include <h2o/http2.h>
#pragma GCC diagnostic pop

#include "gateway/http/phr.h"
