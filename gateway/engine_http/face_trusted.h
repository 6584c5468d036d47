/* face_trusted: what the edge says of a request in x-banyan-* headers: for whom it is, and how far.
 *
 * Owns:     nothing.
 * Thread:   the loop's.
 * Cost:     O(headers).
 * Not here: who may send them: the listener closes a connection of another user (engine_http).
 */
#pragma once

#include "engine/engine.h"
#include "gateway/engine_http/final_ring.h"
#include "gateway/http/request.h"

enum { FACE_PROTOCOL = 1 };

struct face_trusted {
    bool is_given; /* false for a request made by hand */
    char request_id[LIMIT_REQUEST_ID_BYTES];
    uint8_t tenant[16]; /* all zero = not given */
    uint8_t key[16];
    bool has_class;
    enum service_class service_class;
    uint32_t weight; /* 1 … LIMIT_WEIGHT; 0 = not given */
    struct engine_domain domain;
    struct engine_domain visible[LIMIT_DOMAINS_VISIBLE];
    uint32_t visible_count;
    uint32_t visible_public; /* the first so many of `visible` */
    uint32_t visible_group;  /* the next so many */
    uint32_t cache_share;    /* 1 … LIMIT_CACHE_SHARE; 0 = not given */
    int64_t deadline_us;     /* monotonic; 0 = none */
};

/* PROTOCOL_VERSION when the edge speaks another one; for every route. */
enum status face_trusted_check_protocol(const struct http_request *request);
/* PROTOCOL_VERSION when the edge speaks another one; INVALID, OUT_OF_RANGE or LIMIT when a header
 * is malformed, repeated, or stands without the one that it needs. A request without any of the
 * headers is one made by hand: it gets an id made here, no tenant, no domain and no deadline. */
enum status face_trusted_read(struct face_trusted *trusted, const struct http_request *request);
void face_trusted_apply(const struct face_trusted *trusted, struct engine_request *request);
