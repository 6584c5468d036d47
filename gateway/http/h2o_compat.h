/* h2o_compat: the only place that includes libh2o's headers, without our warnings and with evloop.
 *
 * Owns:     the choice of the event loop (evloop, not libuv).
 * Thread:   –
 * Cost:     –
 * Not here: any behaviour.
 *
 * Facts about libh2o 2.2.5 that this room relies on, each read in its source:
 *   - A write or a send from outside the loop's callbacks is completed in the loop's next turn.
 *   - h2o_send with a final state may dispose of the request before it returns (HTTP/1.0, empty
 *     send).
 *   - An HTTP/1 connection is not read while its request runs. Its input buffer still begins with
 *     the request's head, in which names were changed to lower case.
 *   - The SSL of a server's socket is made when the first bytes of the client come. Until then the
 *     socket only points to the SSL_CTX.
 *   - The data of the BIO under a socket's SSL is the h2o_socket_t. The socket's on_close.data is
 *     ours from before the handshake on.
 *   - A socket's reader is `_cb.read`, called after all bytes of one read are decoded. HTTP/1 sets
 *     it again for each request. HTTP/2 reads frames through `_read_expect`.
 *   - A reader that is stopped outside of its own call is called all the same when bytes of this
 *     turn wait for it. Readers stop only themselves, or sockets between two turns.
 *   - A connection of HTTP/2 leaves the context's list when it is freed. Its socket may live on
 *     while TLS says goodbye.
 *   - A buffer is doubled when it is full, is never made smaller, and is freed when it is empty.
 *   - HTTP/1 copies a head that announces a body out of the input; the body follows the head in the
 *     input. A reader of a body keeps offsets, not pointers.
 *   - HTTP/2 answers DATA for a stream whose request was passed on with RST_STREAM.
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
