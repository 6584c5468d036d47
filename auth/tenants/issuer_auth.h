/* issuer_auth: what the method of tokens asks of the issuers beyond their front door.
 *
 * Owns:     nothing; implemented in issuer.c, private to the room.
 * Thread:   any.
 * Cost:     a look-up among LIMIT_ISSUERS under a short lock.
 * Not here: everything that others may ask (issuer).
 */
#pragma once

#include "auth/credential/auth_jwks.h"
#include "auth/tenants/issuer_types.h"

/* An issuer as it was at one moment; it never changes. */
struct issuer_record;

/* By "iss"; NULL: there is none. Give it back. */
struct issuer_record *issuer_record_hold(struct issuers *issuers, struct slice iss);
void issuer_record_drop(struct issuer_record *record);
const struct issuer *issuer_record_about(const struct issuer_record *record);
/* NULL: no key of this name, or one that has ended by now. `print` stands for the key and all
 * rules of its issuer. */
const struct auth_jwks_key *issuer_record_key(const struct issuer_record *record, const char *kid,
                                              int64_t now_s, uint64_t *print);
/* HMAC(domain secret, "key:" id): whom a final record belongs to. */
const uint8_t *issuer_record_hash(const struct issuer_record *record);

/* When a token named a key that is not there: looks at the issuer's file, at most once in
 * LIMIT_TOKEN_BAD_S, or has its URL asked, at most once in LIMIT_JWKS_ASK_S. */
enum issuer_news {
    ISSUER_NEWS_NONE,
    ISSUER_NEWS_KEYS,    /* there may be other keys now */
    ISSUER_NEWS_AWAITED, /* there may be once issuer_fetch_done has been called */
};
enum issuer_news issuer_record_refresh(struct issuers *issuers, const struct issuer_record *record);
/* Whether it has had any keys since it was made. */
bool issuer_record_has_keys(const struct issuer_record *record);

/* Whether a key and its rules are as they were. */
bool issuers_has_key(struct issuers *issuers, uint64_t print);
/* Another number after each change: what was unknown may be known. */
uint64_t issuers_epoch(struct issuers *issuers);
/* The id of the issuer with these opaque bytes. NOT_FOUND. */
enum status issuers_find_hash(struct issuers *issuers, const uint8_t hash[16],
                              char id[LIMIT_ID_BYTES]);
