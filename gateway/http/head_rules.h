/* head_rules: is what a request's head says well formed? Rules that HTTP/1.1 and HTTP/2 share and
 * libh2o 2.2.5 does not enforce.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over names, method, path and authority.
 * Not here: framing of raw HTTP/1 heads (h1_head), which paths there are (router).
 */
#pragma once

#include <stdbool.h>

#include "gateway/http/http_header.h"

struct head_rules {
    struct slice method;
    struct slice path;      /* with the query */
    struct slice authority; /* Host, or :authority */
    const struct http_header *headers;
    size_t header_count;
    bool is_http2;
    bool needs_authority; /* not for HTTP/1.0 */
};

/* NULL when all is well, else one sentence that says what is not (RFC 9110, 4.2, 5.1, 7.2 and 9.1;
 * RFC 9113, 8.2.2 and 8.3.1). */
const char *head_rules_fault(const struct head_rules *head);
