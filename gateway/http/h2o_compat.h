/* h2o_compat: the one place that includes libh2o's headers, as system headers with its flavour set.
 *
 * Owns:     the choice of flavour (evloop), prototypes of parsers that the library exports unnamed.
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

/* PicoHTTPParser, as it is compiled into the library; its header is not packaged. */
struct phr_header {
    const char *name; /* NULL for a folded line */
    size_t name_len;
    const char *value;
    size_t value_len;
};
/* Bytes of the head, -1 when malformed, -2 when incomplete. */
int phr_parse_response(const char *bytes, size_t length, int *minor_version, int *code,
                       const char **text, size_t *text_length, struct phr_header *headers,
                       size_t *header_count, size_t length_before);

struct phr_chunked_decoder { /* zero-filled before the first call */
    size_t bytes_left_in_chunk;
    char consume_trailer;
    char hex_count;
    char state;
};
/* Decodes in place; *length becomes the length of the decoded bytes. Returns the bytes left over
 * after the last chunk, -1 when malformed, -2 when there is more to come. */
ssize_t phr_decode_chunked(struct phr_chunked_decoder *decoder, char *bytes, size_t *length);
