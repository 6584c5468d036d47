/* listener_claim: the question who owns a request whose body has not arrived, and its answers.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: who asks (arrival) and who answers (edge_proof).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/peer_certificate.h"
#include "config/base/slice.h"

/* What is known of a request's sender when the head has arrived and the body has not. */
struct listener_head {
    struct slice authorization; /* the header's value; bytes NULL = no such header */
    struct slice api_key;
    uint32_t authorizations; /* how many such headers there are */
    uint32_t api_keys;
    const struct peer_certificate *certificate; /* the client's valid certificate, or NULL */
    bool must_agree;                            /* the listener requires client certificates */
    const char *peer;                           /* "127.0.0.1:1234" */
    bool is_again;                              /* the last claim was LISTENER_UNPROVED */
};
enum { LISTENER_OWNER_BYTES = 16 };
enum listener_claim {
    LISTENER_STRANGER, /* no valid credential: it is answered at once, as if it had no body */
    LISTENER_UNPROVED, /* the credential is being checked; the claim is called again */
    LISTENER_KNOWN,    /* `owner` is filled */
};
