/* h1_head: is the framing of a raw HTTP/1 head beyond doubt? libh2o 2.2.5 hides what smugglers use.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over the head.
 * Not here: parsing for handlers (libh2o does it), size limits (request), who is whom (arrival).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

struct h1_head {
    size_t bytes; /* of the head with its blank line; empty lines before it counted */
    size_t content_lengths;
    size_t transfer_encodings;
    size_t hosts;
    bool has_folded_line;
    bool has_bare_newline; /* a line ended by LF alone */
    /* What says whose request it is, and how long: views of the input. */
    uint32_t authorizations;
    uint32_t api_keys;
    struct slice authorization; /* of the last such line; bytes NULL: there is none */
    struct slice api_key;
    size_t content_length; /* SIZE_MAX: none, or it is no number */
};

/* `input` begins with a whole head, as a connection's input buffer does. False when there is none.
 */
bool h1_head_scan(struct slice input, struct h1_head *out);
/* NULL when the head is beyond doubt, else one sentence that says what is not. At most one of
 * Content-Length and Transfer-Encoding in all (the second with HTTP/1.1 only), at most one Host
 * (exactly one when HTTP/1.1), no folded lines, every line ended by CRLF (RFC 9112, 2.2, 3.2, 5.2,
 * 6.1 and 6.3). */
const char *h1_head_fault(const struct h1_head *head, bool is_http11);

/* Takes the body off a head: the names of the lines that announce one (Content-Length,
 * Transfer-Encoding, Expect) get another first letter, so that whoever reads the head next finds a
 * request without a body. `bytes` begins with a whole head of that length. */
void h1_head_strip_body(char *bytes, size_t head_bytes);
