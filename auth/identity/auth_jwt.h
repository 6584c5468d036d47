/* auth_jwt: is a token's signature its key's?
 *
 * Owns:     nothing.
 * Thread:   any; for one that may take a while.
 * Cost:     RS256 some 350 µs and ES256 400 µs in libjwt, which reads the key's text each time;
 *           PS256 60 µs, EdDSA 100 µs, HS256 10 µs. OpenSSL alone checks PS256, EdDSA, and what has
 *           another typ than JWT (at+jwt), which libjwt refuses.
 * Not here: form and claims (auth_jwt_guard), which key it is (auth_jwks_find).
 *
 * libjwt 1.10.2 takes the algorithm from the token, takes any curve, and takes any token at all
 * under an empty key. It never sees a token that the guard has not taken, nor one whose algorithm
 * is another than the key's or whose signature is not as long as the key's are.
 */
#pragma once

#include "auth/credential/auth_jwks.h"

/* `jwt` as auth_jwt_guard_open left it. NONE, KEY_ALGORITHM or SIGNATURE. */
enum auth_jwt_reason auth_jwt_verify(const struct auth_jwt *jwt, const struct auth_jwks_key *key);
