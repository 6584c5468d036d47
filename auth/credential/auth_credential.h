/* auth_credential: what a client shows of itself.
 *
 * Owns:     nothing: texts are the caller's.
 * Thread:   any.
 * Cost:     –
 * Not here: what it proves (auth), its form (api_key, auth_jwt_guard).
 */
#pragma once

#include "config/base/peer_certificate.h"
#include "config/base/slice.h"

/* What a client has shown of itself. */
struct auth_credential {
    struct slice text; /* of a header: a key or a token, which decides; empty: none came */
    const struct peer_certificate *certificate; /* its connection's, verified; NULL: none */
    bool must_agree; /* beside a text, too, the certificate must be there and the same tenant's */
};
