/* certificate_auth: what auth asks of the certificates beyond their front door.
 *
 * Owns:     nothing; implemented in certificate.c, private to the room.
 * Thread:   any.
 * Cost:     a look-up for the fingerprint, and one for each name when there is none.
 * Not here: everything that others may ask (certificate).
 */
#pragma once

#include "auth/tenants/certificate_types.h"
#include "auth/tenants/tenant_auth.h"
#include "config/base/peer_certificate.h"

/* Whose it is and how that stands. `out` is filled as of a key. WRONG: no row fits; `is_ambiguous`
 * tells if more than one would, by several of its names. */
enum tenant_match certificates_match(struct certificates *certificates,
                                     const struct peer_certificate *peer, struct principal *out,
                                     bool *is_ambiguous);
/* The same of one that has proved itself before, by its row's id. */
enum tenant_match certificates_standing(struct certificates *certificates, const char *id,
                                        struct principal *out);
/* The id of the row with these opaque bytes. NOT_FOUND. */
enum status certificates_find_hash(struct certificates *certificates, const uint8_t hash[16],
                                   char id[LIMIT_ID_BYTES]);
