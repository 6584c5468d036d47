/* certificate_auth: functions of the certificates that only auth calls.
 *
 * Owns:     nothing. certificate.c implements them; they are private to auth/.
 * Thread:   any.
 * Cost:     a look-up for the fingerprint and, if it has no row, one for each name.
 * Not here: functions for all callers (certificate).
 */
#pragma once

#include "auth/tenants/certificate_types.h"
#include "auth/tenants/tenant_auth.h"
#include "config/base/peer_certificate.h"

/* Finds the row of a certificate and returns the state of the row and its tenant. Fills `out` as
 * for a key. WRONG: no row matches, or several names of the certificate have rows that are not
 * revoked; then `is_ambiguous` is set. */
enum tenant_match certificates_match(struct certificates *certificates,
                                     const struct peer_certificate *peer, struct principal *out,
                                     bool *is_ambiguous);
/* Returns the same for a certificate that was matched before, by the id of its row. */
enum tenant_match certificates_standing(struct certificates *certificates, const char *id,
                                        struct principal *out);
/* Finds the id of the row whose `hash` this is. NOT_FOUND. */
enum status certificates_find_hash(struct certificates *certificates, const uint8_t hash[16],
                                   char id[LIMIT_ID_BYTES]);
