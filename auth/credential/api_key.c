#include "auth/credential/api_key.h"

#include <stdio.h>

#include "config/base/hash.h"
#include "config/base/random_bytes.h"

static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const struct slice tenant_prefix = {"sk-by-", 6};
static const struct slice admin_prefix = {"sk-by-admin-", 12};

/* After the prefix: public id, dash, secret, dash, check digits. */
enum { BODY_BYTES = API_KEY_PUBLIC + 1 + API_KEY_SECRET + 1 + API_KEY_CHECK };

void api_key_random(char *out, size_t length)
{
    unsigned char bytes[64];
    size_t used = sizeof bytes;
    for (size_t i = 0; i < length;) {
        if (used == sizeof bytes) {
            random_bytes(bytes, sizeof bytes);
            used = 0;
        }
        unsigned char byte = bytes[used++];
        if (byte < 4 * 62) /* the other byte values would make the first digits more likely */
            out[i++] = digits[byte % 62];
    }
    out[length] = '\0';
}

static void check_digits(struct slice before, char out[API_KEY_CHECK])
{
    uint32_t crc = hash_crc32(before.bytes, before.length);
    for (size_t i = API_KEY_CHECK; i > 0; i--) {
        out[i - 1] = digits[crc % 62];
        crc /= 62;
    }
}

void api_key_make(bool is_admin, char value[LIMIT_KEY_BYTES])
{
    char public_id[API_KEY_PUBLIC + 1];
    char secret[API_KEY_SECRET + 1];
    api_key_random(public_id, API_KEY_PUBLIC);
    api_key_random(secret, API_KEY_SECRET);
    int length = snprintf(value, LIMIT_KEY_BYTES, "%s%s-%s",
                          is_admin ? admin_prefix.bytes : tenant_prefix.bytes, public_id, secret);
    char check[API_KEY_CHECK];
    check_digits((struct slice){value, (size_t)length}, check);
    snprintf(value + length, LIMIT_KEY_BYTES - (size_t)length, "-%.*s", API_KEY_CHECK, check);
}

static bool read_is_base62(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '\0' || strchr(digits, bytes[i]) == NULL)
            return false;
    }
    return true;
}

enum status api_key_read(struct slice credential, struct api_key *out)
{
    if (credential.length == 0)
        FAIL(STATUS_KEY_MISSING, "no API key was given");
    out->has_form = false;
    out->is_admin = credential.length == admin_prefix.length + BODY_BYTES &&
                    slice_starts_with(credential, admin_prefix);
    struct slice prefix = out->is_admin ? admin_prefix : tenant_prefix;
    if (credential.length != prefix.length + BODY_BYTES || !slice_starts_with(credential, prefix))
        FAIL(STATUS_KEY_INVALID, "the API key does not have the form of one: sk-by-… in full, "
                                 "without spaces");
    out->has_form = true;
    const char *public_id = credential.bytes + prefix.length;
    const char *secret = public_id + API_KEY_PUBLIC + 1;
    const char *check = secret + API_KEY_SECRET + 1;
    char right[API_KEY_CHECK];
    struct slice before = {credential.bytes, credential.length - API_KEY_CHECK - 1};
    check_digits(before, right);
    if (!read_is_base62(public_id, API_KEY_PUBLIC) || secret[-1] != '-' ||
        !read_is_base62(secret, API_KEY_SECRET) || check[-1] != '-' ||
        memcmp(check, right, API_KEY_CHECK) != 0)
        FAIL(STATUS_KEY_INVALID, "the API key is mistyped: its check digits do not fit");
    snprintf(out->id, sizeof out->id, "key_%.*s", API_KEY_PUBLIC, public_id);
    return STATUS_OK;
}

void api_key_redact(struct slice value, char out[LIMIT_ID_BYTES])
{
    ASSERT(value.length > BODY_BYTES);
    snprintf(out, LIMIT_ID_BYTES, "%.*s\u2026%.*s", (int)(value.length - BODY_BYTES + 3),
             value.bytes, 3, value.bytes + value.length - 3);
}
