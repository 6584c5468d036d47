/* auth_jwks: reads an issuer's JSON Web Key Set (RFC 7517) and finds its keys by name.
 *
 *   {"keys":[{"kty":"EC","crv":"P-256","kid":"2026-11","alg":"ES256","x":"…","y":"…"}, …]}
 *
 * Owns:     the keys of one set, which never change.
 * Thread:   any; all threads may read a set.
 * Cost:     reading a set checks each key, which takes about a millisecond for RSA.
 * Not here: where sets come from (issuer), signatures (auth_jwt).
 *
 * The algorithm of a key is fixed here, once; a token's alg is only compared with it. Keys for
 * other uses, of other kinds and of algorithms that are not allowed are passed over, because
 * issuers publish such keys too. A usable key that is weak or malformed makes the whole set
 * invalid.
 */
#pragma once

#include "auth/credential/auth_jwt_guard.h"

struct evp_pkey_st;

struct auth_jwks_key {
    char kid[LIMIT_JWT_KID_BYTES + 1];
    enum auth_jwt_algorithm algorithm;
    size_t signature_bytes;   /* the length of its signatures */
    struct evp_pkey_st *pkey; /* NULL for HS256 */
    char *pem;                /* the same key as text; NULL for HS256 */
    uint8_t *secret;          /* for HS256; else NULL */
    size_t secret_bytes;
    int64_t until_s;   /* when it stops being accepted, Unix time; 0: never (auth_jwks_overlap) */
    uint8_t print[32]; /* SHA-256 of algorithm, name and key; it tells different keys apart */
};

struct auth_jwks {
    size_t count;
    struct auth_jwks_key keys[LIMIT_ISSUER_KEYS];
};

/* Reads a set. `algorithms` has the bit 1 << enum auth_jwt_algorithm for each algorithm that keys
 * may have. INVALID or OUT_OF_RANGE with a param such as "jwks.keys[2].n"; NO_MEMORY. No message
 * contains text of the set. */
enum status auth_jwks_read(struct slice json, uint32_t algorithms, struct auth_jwks **out);
/* Frees a set and overwrites its secrets. NULL is allowed. */
void auth_jwks_free(struct auth_jwks *jwks);

/* The key of that name; NULL when there is none. */
const struct auth_jwks_key *auth_jwks_find(const struct auth_jwks *jwks, const char *kid);
