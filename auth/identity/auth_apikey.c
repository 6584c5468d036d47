#include "auth/credential/api_key.h"
#include "auth/identity/auth_method.h"
#include "auth/tenants/tenant_auth.h"

bool auth_apikey_recognises(const struct auth_credential *credential)
{
    return credential->text.length > 0; /* the last method takes what no other one recognises */
}

/* Unknown, wrong, revoked and expired keys get the same sentence, so that a stranger learns
 * nothing. */
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

/* Keys that failed are not remembered, because a cache would save nothing: it would need a hash
 * that strangers cannot aim at, which is the HMAC below, and then a look-up and a comparison, which
 * follow it anyway. So an unknown or wrong key costs as much as a good one (bench_keys: 1.5 to 2.3
 * µs beside a load of 13 on two processors), and a mistyped one 0.3 µs, before any hash. No flood
 * of bad keys can push anything out, and a new key is accepted at once although its id was refused
 * before. */
enum status auth_apikey_authenticate(struct auth_method_context *context,
                                     const struct auth_credential *credential, bool want_admin,
                                     struct principal *out)
{
    struct api_key read;
    uint8_t hash[AUTH_CRYPTO_BYTES];
    enum status status = api_key_read(credential->text, &read);
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
