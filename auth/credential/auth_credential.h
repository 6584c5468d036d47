/* auth_credential: what a client sends to authenticate itself.
 *
 * Owns:     nothing; the caller owns the texts.
 * Thread:   any.
 * Cost:     –
 * Not here: authenticating (auth), the forms of keys and tokens (api_key, auth_jwt_guard).
 */
#pragma once

#include "config/base/peer_certificate.h"
#include "config/base/slice.h"

struct auth_credential {
    struct slice text; /* a key or token from a header, which decides; empty: none came */
    const struct peer_certificate *certificate; /* the connection's, verified; NULL: none */
    bool must_agree; /* the certificate is required beside a text, and of the same tenant */
};
