/* http1_response: the head of an HTTP/1.1 response, and how its body ends.
 *
 * Owns:     nothing; the headers point into the bytes that were parsed.
 * Thread:   any.
 * Cost:     O(bytes), no allocation.
 * Not here: reading and waiting (http1_client, https_client), decoding chunks (phr).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "gateway/http/phr.h"

enum { HTTP1_RESPONSE_HEADERS_MAX = 64 };

/* What stands at the front of the input. */
enum http1_response_state {
    HTTP1_RESPONSE_PART,    /* the beginning of a head */
    HTTP1_RESPONSE_WHOLE,   /* a head */
    HTTP1_RESPONSE_FOREIGN, /* no HTTP/1 response, or a head of more than LIMIT_HEAD_BYTES */
};

/* How the end of a body is known (RFC 9112, section 6.3). */
enum http1_response_framing {
    HTTP1_RESPONSE_LENGTH,  /* after `length` bytes */
    HTTP1_RESPONSE_CHUNKED, /* after the last chunk */
    HTTP1_RESPONSE_CLOSE,   /* with the connection */
};

struct http1_response {
    int code;
    int minor_version; /* of HTTP/1 */
    size_t head_bytes;
    size_t header_count;
    struct phr_header headers[HTTP1_RESPONSE_HEADERS_MAX];
    /* Set by http1_response_frame(). */
    enum http1_response_framing framing;
    uint64_t length;    /* of the body, in bytes, when the framing is LENGTH */
    bool is_keep_alive; /* the server keeps the connection open after the body */
};

/* Parses the head at the front of `input`. `parsed_before` is the length of the input at the last
 * call for the same head, 0 at the first. */
enum http1_response_state http1_response_parse(struct http1_response *out, struct slice input,
                                               size_t parsed_before);

/* Sets the framing of a whole head. PROTOCOL when it is malformed or ambiguous: a response has one
 * content-length, or "transfer-encoding: chunked", or neither of them. */
enum status http1_response_frame(struct http1_response *response);

/* Whether the header has this name, which is compared without regard to case. */
bool http1_response_is(const struct phr_header *header, const char *name);
struct slice http1_response_value(const struct phr_header *header);
/* A value that is a decimal number of at most `most`; false for any other value. */
bool http1_response_number(const struct phr_header *header, uint64_t most, uint64_t *out);
