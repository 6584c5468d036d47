/* issuer_auth: functions of the issuers that only the check of tokens (auth_token) calls.
 *
 * Owns:     nothing. issuer.c implements them; they are private to auth/.
 * Thread:   any.
 * Cost:     a look-up among LIMIT_ISSUERS under a short lock.
 * Not here: functions for all callers (issuer).
 */
#pragma once

#include "auth/credential/auth_jwks.h"
#include "auth/tenants/issuer_types.h"

/* An issuer in memory. Its keys and rules never change; a change makes a new record. */
struct issuer_record;

/* Finds the issuer of a claim "iss" and takes a reference; NULL when there is none. Release it with
 * issuer_record_drop. */
struct issuer_record *issuer_record_hold(struct issuers *issuers, struct slice iss);
void issuer_record_drop(struct issuer_record *record);
const struct issuer *issuer_record_about(const struct issuer_record *record);
/* Finds a key by its id `kid`; NULL when it is unknown or has ended. `print` is a hash of the key
 * and all rules of its issuer. */
const struct auth_jwks_key *issuer_record_key(const struct issuer_record *record, const char *kid,
                                              int64_t now_s, uint64_t *print);
/* HMAC(domain secret, "key:" id): the issuer's name in final records. */
const uint8_t *issuer_record_hash(const struct issuer_record *record);

/* Called when a token names an unknown key. Reads the issuer's file, at most once in
 * LIMIT_TOKEN_BAD_S, or makes a fetch of its URL due, at most once in LIMIT_JWKS_ASK_S. */
enum issuer_news {
    ISSUER_NEWS_NONE,
    ISSUER_NEWS_KEYS,    /* the keys may have changed */
    ISSUER_NEWS_AWAITED, /* they may change when issuer_fetch_done is called */
};
enum issuer_news issuer_record_refresh(struct issuers *issuers, const struct issuer_record *record);
/* Whether the record has a key set. */
bool issuer_record_has_keys(const struct issuer_record *record);

/* Whether an issuer still has the key and the rules of this `print`. */
bool issuers_has_key(struct issuers *issuers, uint64_t print);
/* A number that rises with each change. A refusal that was cached under an older number must be
 * checked again. */
uint64_t issuers_epoch(struct issuers *issuers);
/* Finds the id of the issuer whose issuer_record_hash this is. NOT_FOUND. */
enum status issuers_find_hash(struct issuers *issuers, const uint8_t hash[16],
                              char id[LIMIT_ID_BYTES]);
