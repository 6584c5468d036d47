/* auth_apikey: API keys: their form, their check digits, and the method that asks for them.
 *
 *   sk-by-Ab3dEf6hIj9l-<43 base62: 256 bits of secret>-<6 base62: CRC-32 of all before this dash>
 *   sk-by-admin-Ab3dEf6hIj9l-…-…                        └ highest digit first, 0-9 A-Z a-z
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a check is one CRC over 70 bytes; making one draws from the kernel's generator.
 * Not here: whose key it is (tenant). auth_apikey_authenticate is declared in auth_method.
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum { AUTH_APIKEY_PUBLIC = 12, AUTH_APIKEY_SECRET = 43, AUTH_APIKEY_CHECK = 6 };

struct auth_apikey {
    bool has_form; /* only its check digits are wrong, if anything is */
    bool is_admin;
    char id[LIMIT_ID_BYTES]; /* "key_" and the 12 public characters */
};

/* A new key, terminated, in `value`. */
void auth_apikey_make(bool is_admin, char value[LIMIT_KEY_BYTES]);

/* Form and check digits only. KEY_MISSING when empty; KEY_INVALID with a message that speaks of a
 * typing error when the digits do not fit, and of the form when it is no key of ours at all. */
enum status auth_apikey_read(struct slice credential, struct auth_apikey *out);

/* "sk-by-Ab3…xyz": enough to tell keys apart, of a key that auth_apikey_read takes. */
void auth_apikey_redact(struct slice value, char out[LIMIT_ID_BYTES]);

/* `length` characters, each uniform over 0-9 A-Z a-z, from the kernel's generator; then a NUL. */
void auth_apikey_random(char *out, size_t length);
