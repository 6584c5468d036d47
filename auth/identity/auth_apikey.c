#include "auth/identity/auth_apikey.h"

#include <stdio.h>

#include "auth/identity/auth_method.h"
#include "auth/tenants/tenant_auth.h"
#include "config/base/hash.h"
#include "config/base/rng.h"

static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
static const struct slice tenant_prefix = {"sk-by-", 6};
static const struct slice admin_prefix = {"sk-by-admin-", 12};

/* Behind the prefix: public id, dash, secret, dash, check. */
enum { BODY_BYTES = AUTH_APIKEY_PUBLIC + 1 + AUTH_APIKEY_SECRET + 1 + AUTH_APIKEY_CHECK };

void auth_apikey_random(char *out, size_t length)
{
    unsigned char bytes[64];
    size_t used = sizeof bytes;
    for (size_t i = 0; i < length;) {
        if (used == sizeof bytes) {
            rng_secure_bytes(bytes, sizeof bytes);
            used = 0;
        }
        unsigned char byte = bytes[used++];
        if (byte < 4 * 62) /* the rest of the 256 values would favour the first digits */
            out[i++] = digits[byte % 62];
    }
    out[length] = '\0';
}

static void check_digits(struct slice before, char out[AUTH_APIKEY_CHECK])
{
    uint32_t crc = hash_crc32(before.bytes, before.length);
    for (size_t i = AUTH_APIKEY_CHECK; i > 0; i--) {
        out[i - 1] = digits[crc % 62];
        crc /= 62;
    }
}

void auth_apikey_make(bool is_admin, char value[LIMIT_KEY_BYTES])
{
    char public_id[AUTH_APIKEY_PUBLIC + 1];
    char secret[AUTH_APIKEY_SECRET + 1];
    auth_apikey_random(public_id, AUTH_APIKEY_PUBLIC);
    auth_apikey_random(secret, AUTH_APIKEY_SECRET);
    int length = snprintf(value, LIMIT_KEY_BYTES, "%s%s-%s",
                          is_admin ? admin_prefix.bytes : tenant_prefix.bytes, public_id, secret);
    char check[AUTH_APIKEY_CHECK];
    check_digits((struct slice){value, (size_t)length}, check);
    snprintf(value + length, LIMIT_KEY_BYTES - (size_t)length, "-%.*s", AUTH_APIKEY_CHECK, check);
}

static bool read_is_base62(const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '\0' || strchr(digits, bytes[i]) == NULL)
            return false;
    }
    return true;
}

enum status auth_apikey_read(struct slice credential, struct auth_apikey *out)
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
    const char *secret = public_id + AUTH_APIKEY_PUBLIC + 1;
    const char *check = secret + AUTH_APIKEY_SECRET + 1;
    char right[AUTH_APIKEY_CHECK];
    struct slice before = {credential.bytes, credential.length - AUTH_APIKEY_CHECK - 1};
    check_digits(before, right);
    if (!read_is_base62(public_id, AUTH_APIKEY_PUBLIC) || secret[-1] != '-' ||
        !read_is_base62(secret, AUTH_APIKEY_SECRET) || check[-1] != '-' ||
        memcmp(check, right, AUTH_APIKEY_CHECK) != 0)
        FAIL(STATUS_KEY_INVALID, "the API key is mistyped: its check digits do not fit");
    snprintf(out->id, sizeof out->id, "key_%.*s", AUTH_APIKEY_PUBLIC, public_id);
    return STATUS_OK;
}

void auth_apikey_redact(struct slice value, char out[LIMIT_ID_BYTES])
{
    ASSERT(value.length > BODY_BYTES);
    snprintf(out, LIMIT_ID_BYTES, "%.*s\u2026%.*s", (int)(value.length - BODY_BYTES + 3),
             value.bytes, 3, value.bytes + value.length - 3);
}

bool auth_apikey_recognises(const struct auth_credential *credential)
{
    return credential->text.length > 0; /* last of the methods: whatever no other one knows */
}

/* One sentence for unknown, wrong, revoked and expired keys: a stranger learns nothing. */
static enum status authenticate_refuse(struct auth_method_context *context, enum tenant_match match)
{
    static const enum auth_refusal refusals[] = {
        [TENANT_MATCH_WRONG] = AUTH_REFUSAL_APIKEY_WRONG,
        [TENANT_MATCH_REVOKED] = AUTH_REFUSAL_APIKEY_REVOKED,
        [TENANT_MATCH_EXPIRED] = AUTH_REFUSAL_APIKEY_EXPIRED,
        [TENANT_MATCH_ARCHIVED] = AUTH_REFUSAL_APIKEY_ARCHIVED,
        [TENANT_MATCH_SUSPENDED] = AUTH_REFUSAL_APIKEY_SUSPENDED,
    };
    atomic_fetch_add(&context->refused[refusals[match]], 1);
    if (match == TENANT_MATCH_SUSPENDED)
        FAIL(STATUS_FORBIDDEN, "the tenant of this API key is suspended");
    FAIL(STATUS_KEY_INVALID, "the API key is not valid");
}

/* Keys that failed are not remembered. To find one again takes a hash that strangers cannot aim
 * at, which is the HMAC below; what follows it, a look-up and a comparison, is what a cache would
 * do. So an unknown or wrong key costs what a good one does (bench_keys: 1.5 to 2.3 µs beside a
 * load of 13 on two processors; a mistyped one 0.3 µs, before any hash), no flood can push anything
 * out, and a key that is made after its id was refused is taken at once. */
enum status auth_apikey_authenticate(struct auth_method_context *context,
                                     const struct auth_credential *credential, bool want_admin,
                                     struct principal *out)
{
    struct auth_apikey read;
    uint8_t hash[AUTH_CRYPTO_BYTES];
    enum status status = auth_apikey_read(credential->text, &read);
    if (status != STATUS_OK) {
        atomic_fetch_add(
            &context->refused[read.has_form ? AUTH_REFUSAL_APIKEY_CHECK : AUTH_REFUSAL_APIKEY_FORM],
            1);
        return status;
    }
    TRY(auth_crypto_hmac(context->pepper, credential->text, hash));
    enum tenant_match match = tenants_key_match(context->tenants, read.id, hash, out);
    if (match != TENANT_MATCH_OPEN)
        return authenticate_refuse(context, match);
    if (out->is_admin != want_admin || out->is_admin != read.is_admin) {
        atomic_fetch_add(&context->refused[AUTH_REFUSAL_APIKEY_FACE], 1);
        FAIL(STATUS_KEY_INVALID, want_admin ? "a tenant's API key does not open the config API"
                                            : "an admin key does not open the tenants' API");
    }
    return STATUS_OK;
}
