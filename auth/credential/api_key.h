/* api_key: API keys: their form and their check digits; random characters.
 *
 *   sk-by-Ab3dEf6hIj9l-<43 base62: 256 bits of secret>-<6 base62: CRC-32 of all before this dash>
 *   sk-by-admin-Ab3dEf6hIj9l-…-…                        └ highest digit first, 0-9 A-Z a-z
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     a check is one CRC over 70 bytes; making one draws from the kernel's generator.
 * Not here: whose key it is (tenant), the method that asks for keys (auth_apikey).
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum { API_KEY_PUBLIC = 12, API_KEY_SECRET = 43, API_KEY_CHECK = 6 };

struct api_key {
    bool has_form; /* only its check digits are wrong, if anything is */
    bool is_admin;
    char id[LIMIT_ID_BYTES]; /* "key_" and the 12 public characters */
};

/* A new key, terminated, in `value`. */
void api_key_make(bool is_admin, char value[LIMIT_KEY_BYTES]);

/* Form and check digits only. KEY_MISSING when empty; KEY_INVALID with a message that speaks of a
 * typing error when the digits do not fit, and of the form when it is no key of ours at all. */
enum status api_key_read(struct slice credential, struct api_key *out);

/* "sk-by-Ab3…xyz": enough to tell keys apart, of a key that api_key_read takes. */
void api_key_redact(struct slice value, char out[LIMIT_ID_BYTES]);

/* `length` characters, each uniform over 0-9 A-Z a-z, from the kernel's generator; then a NUL. */
void api_key_random(char *out, size_t length);
