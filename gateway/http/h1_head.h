/* h1_head: checks that the framing of a raw HTTP/1 head is unambiguous. libh2o 2.2.5 hides what
 * request smuggling uses.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over the head.
 * Not here: parsing for handlers (libh2o), size limits (request), owners of requests (arrival).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

struct h1_head {
    size_t bytes; /* length of the head, with its blank line and with empty lines before it */
    size_t content_lengths;
    size_t transfer_encodings;
    size_t hosts;
    bool has_folded_line;
    bool has_bare_newline;      /* a line ends with LF without CR */
    uint32_t authorizations;    /* lines with Authorization */
    uint32_t api_keys;          /* lines with X-Api-Key */
    struct slice authorization; /* the last one, in the input; bytes NULL = none */
    struct slice api_key;       /* the same */
    size_t content_length;      /* the last one; SIZE_MAX = none, or no number */
};

/* Reads the head at the front of `input`, a connection's input buffer. False when no whole head is
 * there. */
bool h1_head_scan(struct slice input, struct h1_head *out);
/* NULL when the framing is unambiguous, else a sentence that says what is wrong. RFC 9112, sections
 * 2.2, 3.2, 5.2, 6.1 and 6.3, in the strict reading: at most one of Content-Length and
 * Transfer-Encoding, the latter only in HTTP/1.1; at most one Host, and exactly one in HTTP/1.1; no
 * folded lines; every line ends with CRLF. */
const char *h1_head_fault(const struct h1_head *head, bool is_http11);

/* Removes the announcement of a body from a head: it changes the first letter of the names
 * Content-Length, Transfer-Encoding and Expect, so that the next reader of the head finds a request
 * without a body. `bytes` begins with a whole head of that length. */
void h1_head_strip_body(char *bytes, size_t head_bytes);
