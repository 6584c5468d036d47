/* auth_jwt_guard: checks a token's form, header and claims (RFC 7515, 7519, 8725) before a library
 * that checks signatures sees it.
 *
 *   eyJhbGciOi….eyJpc3MiOi….MEUCIQDd…      base64url without padding, 8 KiB at most
 *   └ header ──┘└ claims ──┘└ signature
 *
 * Owns:     the parsed claims of one token.
 * Thread:   any thread that may take some 20 µs.
 * Cost:     two small JSON trees.
 * Not here: keys and signatures (auth_jwks, auth_jwt), which issuers there are (issuer).
 *
 * Nothing that is read here may be trusted before auth_jwt_verify has accepted the signature.
 * Values of a token never reach a message or a log, because reasons are fixed sentences.
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
/* Finds the algorithm of a name, which must be written exactly; false for any other word. */
bool auth_jwt_guard_find_algorithm(struct slice word, enum auth_jwt_algorithm *out);

/* Whether the text may be a key's name: 1 to LIMIT_JWT_KID_BYTES letters, digits and ._-+/=: */
bool auth_jwt_guard_is_kid(struct slice kid);

enum { AUTH_JWT_SIGNATURE_BYTES = LIMIT_RSA_BITS / 8 };

struct auth_jwt {
    enum auth_jwt_algorithm algorithm;
    char kid[LIMIT_JWT_KID_BYTES + 1];
    bool is_plain; /* its typ is missing or exactly JWT; libjwt refuses any other */
    struct slice token;
    struct slice signed_part; /* header and claims with the dot between them */
    uint8_t signature[AUTH_JWT_SIGNATURE_BYTES];
    size_t signature_bytes;
    struct json_t *claims;
};

/* Checks the token's form, its header and the form of its claims. `token` must outlive `out`; call
 * auth_jwt_guard_close whatever this returns. Returns AUTH_JWT_NONE or the reason of the refusal;
 * without memory, header or claims count as malformed. */
enum auth_jwt_reason auth_jwt_guard_open(struct slice token, struct auth_jwt *out);
void auth_jwt_guard_close(struct auth_jwt *jwt);

struct auth_jwt_rules {
    const char (*audiences)[LIMIT_NAME_BYTES]; /* one of these must be in "aud" */
    size_t audience_count;
    int64_t lifetime_s;
};
/* Checks exp, nbf, iat and aud against the rules and `now_s` (Unix time). Sets `*expires_s` to exp.
 * Returns AUTH_JWT_NONE or the reason of the refusal. */
enum auth_jwt_reason auth_jwt_guard_claims(const struct auth_jwt *jwt,
                                           const struct auth_jwt_rules *rules, int64_t now_s,
                                           int64_t *expires_s);

/* The text of a claim; `bytes` is NULL when the claim is missing or not a text. */
struct slice auth_jwt_guard_claim(const struct auth_jwt *jwt, const char *name);

/* Calls `take` for each word of a claim, which is a text with spaces between words, or a list of
 * texts. False when it is neither; a missing claim has no words. */
bool auth_jwt_guard_words(const struct auth_jwt *jwt, const char *name, void *context,
                          void (*take)(void *context, struct slice word));

/* Decodes base64url without padding (RFC 4648, 5). False when a character is not of the alphabet,
 * the length is impossible, unused bits are not zero, or the result is longer than `capacity`. */
bool auth_jwt_guard_decode(struct slice text, void *out, size_t capacity, size_t *length);
