/* face_trusted: reads what the edge says about a request in x-banyan-* headers: its id, tenant,
 * class, domains and deadline, and the model of a body that names none.
 *
 * Owns:     nothing.
 * Thread:   the loop's.
 * Cost:     O(headers).
 * Not here: who may send these headers: the listener refuses other users' connections
 *           (engine_http).
 */
#pragma once

#include "engine/engine.h"
#include "gateway/engine_http/final_ring.h"
#include "gateway/http/request.h"

enum { FACE_PROTOCOL = 1 };

struct face_trusted {
    bool is_given; /* the edge gave a request id; false for a request without an edge */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    uint8_t tenant[16]; /* all zero = not given */
    uint8_t key[16];
    bool has_class;
    enum service_class service_class;
    uint32_t weight; /* 1 … LIMIT_WEIGHT; 0 = not given */
    struct engine_domain domain;
    struct engine_domain visible[LIMIT_DOMAINS_VISIBLE];
    uint32_t visible_count;
    uint32_t visible_public;      /* domains of published prompts, first in `visible` */
    uint32_t visible_group;       /* domains of the group, after them; then the tenant's own */
    uint32_t cache_share;         /* 1 … LIMIT_CACHE_SHARE; 0 = not given */
    int64_t deadline_us;          /* monotonic; 0 = none */
    char model[LIMIT_NAME_BYTES]; /* for a body that names none; "" = not given */
};

/* PROTOCOL_VERSION when the edge speaks another protocol than FACE_PROTOCOL. */
enum status face_trusted_check_protocol(const struct http_request *request);
/* Reads and checks all headers. PROTOCOL_VERSION as above; INVALID, OUT_OF_RANGE or LIMIT when a
 * header is malformed, repeated, or lacks the header that it needs. A request without these headers
 * gets a new id, and no tenant, domain or deadline. */
enum status face_trusted_read(struct face_trusted *trusted, const struct http_request *request);
/* Copies what was read to an engine request; the request id is borrowed. */
void face_trusted_apply(const struct face_trusted *trusted, struct engine_request *request);
