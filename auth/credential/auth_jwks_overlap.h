/* auth_jwks_overlap: joins a freshly fetched key set with the one before it. Keys that the new set
 * no longer holds stay for a while, so that tokens that were signed with them are still accepted.
 *
 *   kept  {a, b}        fetched {b, c}        →  {b, c, a until now + overlap}
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     two JSON trees.
 * Not here: what a key is (auth_jwks, which reads the end of each), fetching (issuer_fetch).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

/* The member that tells when a key ends, Unix time. Only Banyan sets it; if an issuer sends one, it
 * is dropped. */
#define AUTH_JWKS_UNTIL "banyan_until"

/* Appends the joined set to `out`, without certificates. Both texts must be sets that
 * auth_jwks_read has accepted; `kept` may be empty. A key whose name is in `fetched` is taken from
 * there. NO_MEMORY. */
enum status auth_jwks_overlap(struct slice kept, struct slice fetched, int64_t now_s,
                              int64_t overlap_s, struct buffer *out);
