/* auth_crypto: HMAC-SHA-256, sealing (AES-256-GCM), and comparing in constant time.
 *
 * Owns:     one MAC context for each thread. In auth, OpenSSL is used here and, for keys of
 *           issuers, in auth_jwks and auth_jwt.
 * Thread:   any.
 * Cost:     an HMAC of a short message takes 0.3 µs with the key of the thread's last call, and 0.4
 *           µs more with another one. It does not allocate after a thread's first call.
 * Not here: what is authenticated (auth_apikey, auth), random bytes (random_bytes).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

enum { AUTH_CRYPTO_BYTES = 32 };

/* HMAC-SHA-256 (RFC 2104). NO_MEMORY when OpenSSL fails. */
enum status auth_crypto_hmac(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice message,
                             uint8_t out[AUTH_CRYPTO_BYTES]);

/* Sealing encrypts and authenticates with AES-256-GCM and a random nonce. `place` is authenticated
 * too (associated data), so a sealed value opens only with the same `place`.
 *
 *   nonce 12 | ciphertext, as long as `plain` | tag 16
 *
 * Both functions append to `out`. Opening returns CORRUPT when the key, the place or any byte
 * differs. Both return NO_MEMORY when memory is missing or OpenSSL fails. */
enum { AUTH_CRYPTO_SEAL_BYTES = 12 + 16 };
enum status auth_crypto_seal(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice place,
                             struct slice plain, struct buffer *out);
enum status auth_crypto_open(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice place,
                             struct slice sealed, struct buffer *out);

/* Whether the bytes are equal. Takes the same time wherever the first difference is. */
bool auth_crypto_equals(const void *a, const void *b, size_t length);

/* Overwrites a secret so that the compiler cannot leave it out. */
void auth_crypto_forget(void *secret, size_t length);
