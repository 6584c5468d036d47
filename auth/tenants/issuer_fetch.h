/* issuer_fetch: key sets that come from a URL: which one is due now, and what a fetch has brought.
 *
 *   issuer_fetch_next ─► (gateway/upstream/key_fetch) ─► issuer_fetch_done
 *
 * A fetch is due jwks_refresh_s after the last one; after one that failed, the smaller of
 * jwks_refresh_s and LIMIT_JWKS_AGAIN_S. It is also due when a token names an unknown key, for each
 * issuer at most once in LIMIT_JWKS_ASK_S.
 *
 * Owns:     the time at which each issuer is due, in its record.
 * Thread:   any; issuer_fetch_done waits for a commit.
 * Cost:     issuer_fetch_next walks the issuers; issuer_fetch_done parses the keys.
 * Not here: HTTP (key_fetch), the thread that fetches (edge_keys).
 *
 * When a set cannot be fetched or read, the old keys stay. Fetched keys are stored in the database,
 * encrypted, so that the server can start without the URL. A key that has left the set is accepted
 * for jwks_overlap_s longer. Such keys are dropped at once when they and the new set together are
 * too large.
 */
#pragma once

#include "auth/tenants/issuer.h"

struct issuer_fetch {
    char id[LIMIT_ID_BYTES];
    char url[LIMIT_JWKS_URL_BYTES];
};

/* The next issuer whose keys are due; those that tokens wait for come first. False when no issuer
 * is due. An issuer is not returned again before issuer_fetch_done. */
bool issuer_fetch_next(struct issuers *issuers, struct issuer_fetch *out);

/* Ends a fetch. `json` is the set; if there is none, `error` says why, otherwise `error` is NULL.
 * True when the set could be read, changed or not. Nothing happens when the issuer was deleted or
 * has got another URL meanwhile. */
bool issuer_fetch_done(struct issuers *issuers, const struct issuer_fetch *fetch, struct slice json,
                       const char *error);

/* Returns the number of issuers whose last fetch failed. */
size_t issuer_fetch_failing(struct issuers *issuers);
