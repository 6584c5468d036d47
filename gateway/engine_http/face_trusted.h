/* face_trusted: what the edge says of a request in headers: id, domain, visibility, deadline.
 *
 * Owns:     nothing.
 * Thread:   the loop's.
 * Cost:     O(headers).
 * Not here: who may send them: the Unix socket belongs to the server's user alone.
 */
#pragma once

#include "engine/engine.h"
#include "gateway/http/request.h"

struct face_trusted {
    bool is_given; /* false for a request made by hand */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    struct engine_domain domain;
    struct engine_domain visible[LIMIT_DOMAINS_VISIBLE];
    uint32_t visible_count;
    int64_t deadline_us; /* monotonic; 0 = none */
};

/* INVALID when the protocol is another or a header is malformed. A request without the headers gets
 * an id made here, no domain and no deadline. */
enum status face_trusted_read(struct face_trusted *trusted, const struct http_request *request);
void face_trusted_apply(const struct face_trusted *trusted, struct engine_request *request);
