/* issuer_fetch: key sets that come from a URL: which one is due now, and what a fetch has brought.
 *
 *   issuer_fetch_next ─► (gateway/upstream/key_fetch) ─► issuer_fetch_done
 *        ▲ jwks_refresh_s after the last one, LIMIT_JWKS_AGAIN_S after one that failed, and when a
 *          token names a key that is not there: at most once in LIMIT_JWKS_ASK_S for each issuer
 *
 * Owns:     the time at which each issuer is due, in its record.
 * Thread:   any; issuer_fetch_done waits for a commit.
 * Cost:     issuer_fetch_next walks the issuers; issuer_fetch_done parses the keys.
 * Not here: HTTP (key_fetch), the thread that fetches (edge_keys).
 *
 * When a set cannot be fetched or read, the old keys stay. Fetched keys are kept sealed in the
 * database, so that a start does not need the URL. Keys that have left the set are accepted for
 * jwks_overlap_s more.
 */
#pragma once

#include "auth/tenants/issuer.h"

struct issuer_fetch {
    char id[LIMIT_ID_BYTES];
    char url[LIMIT_JWKS_URL_BYTES];
};

/* The next issuer whose keys are due; those that tokens wait for come first. False: none is due. An
 * issuer is not returned again before issuer_fetch_done. */
bool issuer_fetch_next(struct issuers *issuers, struct issuer_fetch *out);

/* Ends a fetch: `json` is the set, or `error` says why there is none (else NULL). True when the set
 * could be read, changed or not. Nothing happens when the issuer was deleted or has got another URL
 * meanwhile. */
bool issuer_fetch_done(struct issuers *issuers, const struct issuer_fetch *fetch, struct slice json,
                       const char *error);

/* How many issuers there are whose last fetch failed. */
size_t issuer_fetch_failing(struct issuers *issuers);
