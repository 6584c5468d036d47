/* auth_jwt_guard: a token's form, header and claims, before any library that checks signatures sees
 * it.
 *
 *   eyJhbGciOi….eyJpc3MiOi….MEUCIQDd…      base64url without padding, 8 KiB at most
 *   └ header ──┘└ claims ──┘└ signature
 *
 * Owns:     what it has parsed of one token.
 * Thread:   any; for a thread that may take some 20 µs.
 * Cost:     two small JSON trees.
 * Not here: keys and signatures (auth_jwks, auth_jwt), which issuers there are (issuer).
 *
 * Nothing that is read here is true before auth_jwt_verify has said so. Values of a token never
 * come into a note or a log: reasons are fixed sentences.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

struct json_t;

enum auth_jwt_reason {
#define AUTH_JWT_REASON(name, word, text) AUTH_JWT_##name,
#include "auth/credential/auth_jwt_reasons.def"
#undef AUTH_JWT_REASON
    AUTH_JWT_REASONS
};
const char *auth_jwt_guard_word(enum auth_jwt_reason reason); /* "exp" */
const char *auth_jwt_guard_text(enum auth_jwt_reason reason); /* "The token has expired." */

enum auth_jwt_algorithm {
    AUTH_JWT_RS256,
    AUTH_JWT_PS256,
    AUTH_JWT_ES256,
    AUTH_JWT_EDDSA,
    AUTH_JWT_HS256,
    AUTH_JWT_ALGORITHMS
};
const char *auth_jwt_guard_algorithm(enum auth_jwt_algorithm algorithm); /* "RS256" */
/* Exactly as it is written; false for any other word. */
bool auth_jwt_guard_find_algorithm(struct slice word, enum auth_jwt_algorithm *out);

/* A key's name: 1 to LIMIT_JWT_KID_BYTES letters, digits and ._-+/=: */
bool auth_jwt_guard_is_kid(struct slice kid);

enum { AUTH_JWT_SIGNATURE_BYTES = LIMIT_RSA_BITS / 8 };

struct auth_jwt {
    enum auth_jwt_algorithm algorithm;
    char kid[LIMIT_JWT_KID_BYTES + 1];
    bool is_plain; /* its typ is missing or exactly JWT: libjwt refuses others */
    struct slice token;
    struct slice signed_part; /* header and claims with the dot between them */
    uint8_t signature[AUTH_JWT_SIGNATURE_BYTES];
    size_t signature_bytes;
    struct json_t *claims;
};

/* Form, header and the claims' form. `token` outlives `out`, which auth_jwt_guard_close frees,
 * whatever this returned. AUTH_JWT_NONE or why not; without memory as if the form were wrong. */
enum auth_jwt_reason auth_jwt_guard_open(struct slice token, struct auth_jwt *out);
void auth_jwt_guard_close(struct auth_jwt *jwt);

struct auth_jwt_rules {
    const char (*audiences)[LIMIT_NAME_BYTES]; /* one of these must be in "aud" */
    size_t audience_count;
    int64_t lifetime_s;
};
/* exp, nbf, iat and aud; `*expires_s` is exp. */
enum auth_jwt_reason auth_jwt_guard_claims(const struct auth_jwt *jwt,
                                           const struct auth_jwt_rules *rules, int64_t now_s,
                                           int64_t *expires_s);

/* The text of a claim, bytes NULL when it is missing or no text. */
struct slice auth_jwt_guard_claim(const struct auth_jwt *jwt, const char *name);

/* Calls `take` for each word of a claim: a text with spaces between words, or a list of texts.
 * False when it is neither; a claim that is missing has no words. */
bool auth_jwt_guard_words(const struct auth_jwt *jwt, const char *name, void *context,
                          void (*take)(void *context, struct slice word));

/* Base64url without padding, strictly: alphabet, length, and unused bits zero. False also when
 * there is no room. */
bool auth_jwt_guard_decode(struct slice text, void *out, size_t capacity, size_t *length);
