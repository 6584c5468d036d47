/* auth_crypto: HMAC-SHA-256, sealing, and comparing without telling where two values differ.
 *
 * Owns:     one MAC context a thread. OpenSSL is known here and, for keys of issuers, in auth_jwks
 *           and auth_jwt.
 * Thread:   any.
 * Cost:     0.3 µs for a short message under the key of the thread's last call, 0.4 µs more under
 *           another; no allocation after a thread's first call.
 * Not here: what is authenticated (auth_apikey, auth), random bytes (random_bytes).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

enum { AUTH_CRYPTO_BYTES = 32 };

/* NO_MEMORY when OpenSSL cannot work. */
enum status auth_crypto_hmac(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice message,
                             uint8_t out[AUTH_CRYPTO_BYTES]);

/* AES-256-GCM with a random nonce; what is sealed opens only beside the same `place`.
 *
 *   nonce 12 | ciphertext, as long as `plain` | tag 16
 *
 * Both append to `out`. Opening: CORRUPT when key, place or a byte is another. */
enum { AUTH_CRYPTO_SEAL_BYTES = 12 + 16 };
enum status auth_crypto_seal(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice place,
                             struct slice plain, struct buffer *out);
enum status auth_crypto_open(const uint8_t key[AUTH_CRYPTO_BYTES], struct slice place,
                             struct slice sealed, struct buffer *out);

/* Takes the same time wherever the first difference is. */
bool auth_crypto_equals(const void *a, const void *b, size_t length);

/* Overwrites a secret so that the compiler cannot leave it out. */
void auth_crypto_forget(void *secret, size_t length);
