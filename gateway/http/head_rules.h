/* head_rules: checks the head of a request by rules that HTTP/1.1 and HTTP/2 share and libh2o 2.2.5
 * does not enforce.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     one pass over names, method, path and authority.
 * Not here: framing of raw HTTP/1 heads (h1_head), which paths exist (router).
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
    bool needs_authority; /* false for HTTP/1.0 */
};

/* NULL when the head is well formed, else a sentence that says what is wrong (RFC 9110, sections
 * 4.2, 5.1, 7.2 and 9.1; RFC 9113, sections 8.2.2 and 8.3.1). */
const char *head_rules_fault(const struct head_rules *head);
