/* auth_jwks_overlap: a key set that has been fetched again: keys that it no longer holds stay for a
 * while, so that tokens which were signed with them are still taken.
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

/* The member that tells when a key ends, Unix seconds. It is ours: an issuer's own is dropped. */
#define AUTH_JWKS_UNTIL "banyan_until"

/* Appends the set to `out`; certificates are left out. Both texts are sets that auth_jwks_read
 * has taken; `kept` may be empty. A key whose name is in `fetched` comes from there alone.
 * NO_MEMORY. */
enum status auth_jwks_overlap(struct slice kept, struct slice fetched, int64_t now_s,
                              int64_t overlap_s, struct buffer *out);
