/* api_key: the form of API keys and their check digits; random characters.
 *
 *   sk-by-Ab3dEf6hIj9l-<43 base62: 256 bits of secret>-<6 base62: CRC-32 of all before this dash>
 *   sk-by-admin-Ab3dEf6hIj9l-…-…                        └ highest digit first, 0-9 A-Z a-z
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     reading a key is one CRC over some 65 bytes; making one reads the kernel's random
 *           bytes.
 * Not here: whose key it is (tenant), authenticating by keys (auth_apikey).
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum { API_KEY_PUBLIC = 12, API_KEY_SECRET = 43, API_KEY_CHECK = 6 };

struct api_key {
    /* prefix and length are right; after a failure, the characters or the check digits are wrong */
    bool has_form;
    bool is_admin;
    char id[LIMIT_ID_BYTES]; /* "key_" and the 12 public characters */
};

/* Makes a new key, with a NUL at its end. */
void api_key_make(bool is_admin, char value[LIMIT_KEY_BYTES]);

/* Checks form and check digits only. KEY_MISSING when the text is empty. KEY_INVALID otherwise: the
 * message speaks of a typing error when the check digits do not fit, and of the form when prefix or
 * length are not those of a key. */
enum status api_key_read(struct slice credential, struct api_key *out);

/* Writes a key that api_key_read accepts as "sk-by-Ab3…xyz", which is enough to tell keys apart. */
void api_key_redact(struct slice value, char out[LIMIT_ID_BYTES]);

/* Writes `length` random characters, each uniform over 0-9 A-Z a-z, from the kernel's generator,
 * and a NUL. */
void api_key_random(char *out, size_t length);
