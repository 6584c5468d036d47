/* listener_claim: whose a request is, asked and answered before its body is there.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: asking (arrival), answering (edge_proof).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/peer_certificate.h"
#include "config/base/slice.h"

/* What a request's head says about who sent it, before its body is there. */
struct listener_head {
    struct slice authorization; /* the header's value; bytes NULL: there is none */
    struct slice api_key;
    uint32_t authorizations; /* how many there are */
    uint32_t api_keys;
    const struct peer_certificate *certificate; /* of the connection, judged fine; NULL: none */
    bool must_agree;                            /* the listener wants one of everybody */
    const char *peer;                           /* "127.0.0.1:1234" */
    bool is_again;                              /* it was LISTENER_UNPROVED before */
};
enum { LISTENER_OWNER_BYTES = 16 };
enum listener_claim {
    LISTENER_STRANGER, /* its body is of no use: it is answered at once, as if it had none */
    LISTENER_UNPROVED, /* nobody knows yet; asked again when more has come */
    LISTENER_KNOWN,    /* `owner` is filled */
};
