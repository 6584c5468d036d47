/* issuer_fetch: key sets that come from a URL: which one is to be fetched now, and what came.
 *
 *   issuer_fetch_next ─► (gateway/upstream/key_fetch) ─► issuer_fetch_done
 *        ▲ jwks_refresh_s after the last one, LIMIT_JWKS_AGAIN_S after one that failed, and when a
 *          token names a key that is not there: at most once in LIMIT_JWKS_ASK_S for each issuer
 *
 * Owns:     when each issuer is due, in its record.
 * Thread:   any; _done waits for a commit.
 * Cost:     _due walks the issuers; _done reads the keys.
 * Not here: HTTP (key_fetch), which thread waits for it (edge_keys).
 *
 * A set that cannot be fetched or read leaves the keys there were; they are kept sealed in the
 * database, so that a start does not need the URL. Keys that have left the set stay for
 * jwks_overlap_s.
 */
#pragma once

#include "auth/tenants/issuer.h"

struct issuer_fetch {
    char id[LIMIT_ID_BYTES];
    char url[LIMIT_JWKS_URL_BYTES];
};

/* False: none. Ones that tokens wait for come first. Each is due once until it is done. */
bool issuer_fetch_next(struct issuers *issuers, struct issuer_fetch *out);

/* What came, or why nothing did: `error` NULL for the first. True when the keys are good: read, as
 * they were or others. An issuer that is gone or has another URL meanwhile: nothing happens. */
bool issuer_fetch_done(struct issuers *issuers, const struct issuer_fetch *fetch, struct slice json,
                       const char *error);

/* Issuers whose last fetch failed. */
size_t issuer_fetch_failing(struct issuers *issuers);
