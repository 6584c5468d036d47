/* auth_jwks: an issuer's keys: from a JSON Web Key Set (RFC 7517) to keys that can be asked for by
 * their names.
 *
 *   {"keys":[{"kty":"EC","crv":"P-256","kid":"2026-11","alg":"ES256","x":"…","y":"…"}, …]}
 *
 * Owns:     the keys of one set, which never change.
 * Thread:   any; a set is read by all.
 * Cost:     reading checks each key: about a millisecond for RSA.
 * Not here: where sets come from (issuer), signatures (auth_jwt).
 *
 * A key decides its algorithm, once, here: what a token says is compared with it. Keys for other
 * uses, of other kinds and of algorithms that are not allowed are passed over, as issuers publish
 * those beside; a key that should be used and is weak or malformed refuses the set.
 */
#pragma once

#include "auth/credential/auth_jwt_guard.h"

struct evp_pkey_st;

struct auth_jwks_key {
    char kid[LIMIT_JWT_KID_BYTES + 1];
    enum auth_jwt_algorithm algorithm;
    size_t signature_bytes;   /* of each of its signatures */
    struct evp_pkey_st *pkey; /* NULL for HS256 */
    char *pem;                /* the same as text, terminated */
    uint8_t *secret;          /* HS256's */
    size_t secret_bytes;
    int64_t until_s;   /* its end, 0: none (auth_jwks_overlap) */
    uint8_t print[32]; /* SHA-256 of algorithm, name and key: another key, another print */
};

struct auth_jwks {
    size_t count;
    struct auth_jwks_key keys[LIMIT_ISSUER_KEYS];
};

/* `algorithms`: bits 1 << enum auth_jwt_algorithm that keys may have. INVALID, OUT_OF_RANGE or
 * UNSUPPORTED with a param such as "jwks.keys[2].n". No text of the set comes into a message. */
enum status auth_jwks_read(struct slice json, uint32_t algorithms, struct auth_jwks **out);
void auth_jwks_free(struct auth_jwks *jwks); /* NULL is fine; wipes secrets */

/* NULL: there is none. */
const struct auth_jwks_key *auth_jwks_find(const struct auth_jwks *jwks, const char *kid);
