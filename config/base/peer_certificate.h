/* peer_certificate: what is known of the certificate that a client's connection was made with.
 *
 * Owns:     nothing; the code that fills it keeps the names' bytes as long as the struct is used.
 * Thread:   any; never changed once filled.
 * Cost:     –
 * Not here: how a certificate is checked (gateway/http/tls_client), whose it is (certificate).
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum peer_name_kind { PEER_NAME_URI, PEER_NAME_DNS };

/* A name that the authority vouches for (subjectAltName): visible ASCII; DNS names in lower case
 * and without wildcards. */
struct peer_name {
    enum peer_name_kind kind;
    struct slice text;
};

struct peer_certificate {
    uint8_t fingerprint[32]; /* SHA-256 of the certificate as it was sent (DER) */
    size_t name_count;
    struct peer_name names[LIMIT_PEER_NAMES];
};
