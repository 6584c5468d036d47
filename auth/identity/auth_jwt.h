/* auth_jwt: checks the signature of a token (RFC 7515) with a key.
 *
 * Owns:     nothing.
 * Thread:   any thread that may take up to a millisecond.
 * Cost:     RS256 about 350 µs and ES256 400 µs in libjwt, which parses the key's text each time;
 *           PS256 60 µs, EdDSA 100 µs, HS256 10 µs. libjwt does not know PS256 and EdDSA and
 *           refuses a typ other than JWT, such as at+jwt; OpenSSL alone checks those.
 * Not here: form and claims (auth_jwt_guard), finding the key (auth_jwks_find).
 *
 * libjwt 1.10.2 takes the algorithm from the token, accepts any curve, and accepts any token under
 * an empty key. So it only sees a token that the guard has accepted, whose algorithm is the key's,
 * and whose signature has the length of the key's signatures.
 */
#pragma once

#include "auth/credential/auth_jwks.h"

/* `jwt` is what auth_jwt_guard_open has filled in. Returns NONE when the signature is right, else
 * KEY_ALGORITHM or SIGNATURE. */
enum auth_jwt_reason auth_jwt_verify(const struct auth_jwt *jwt, const struct auth_jwks_key *key);
