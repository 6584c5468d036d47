#include "auth/auth_token.h"

#include "auth/auth_jwt.h"
#include "auth/auth_token_cache.h"
#include "auth/issuer_auth.h"
#include "auth/tenant_auth.h"
#include "auth/tenant_directory.h"
#include "config/base/log.h"
#include "config/base/mem.h"

struct auth_tokens {
    struct auth_token_cache *good;
    struct auth_token_cache *bad;
};

enum status auth_token_open(struct auth_tokens **out)
{
    *out = NULL;
    struct auth_tokens *tokens = mem_zalloc(1, sizeof *tokens);
    if (tokens == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for checked tokens");
    enum status status = auth_token_cache_create(&tokens->good, LIMIT_TOKENS);
    if (status == STATUS_OK)
        status = auth_token_cache_create(&tokens->bad, LIMIT_TOKENS_BAD);
    if (status == STATUS_OK)
        *out = tokens;
    else
        auth_token_close(tokens);
    return status;
}

void auth_token_close(struct auth_tokens *tokens)
{
    if (tokens == NULL)
        return;
    auth_token_cache_destroy(tokens->good);
    auth_token_cache_destroy(tokens->bad);
    mem_free(tokens);
}

/* No other credential has a dot in it. */
bool auth_token_recognises(const struct auth_credential *credential)
{
    struct slice text = credential->text;
    return text.length > 0 && memchr(text.bytes, '.', text.length) != NULL;
}

static enum status refuse(enum auth_jwt_reason reason)
{
    FAIL(STATUS_KEY_INVALID, "%s", auth_jwt_guard_text(reason));
}

/* What is known of a token. False: it must be checked. */
static bool known_find(struct auth_method_context *context, struct slice credential,
                       struct auth_token_entry *out)
{
    uint8_t print[AUTH_CRYPTO_BYTES];
    int64_t now_s = tenant_directory_now_s(context->tenants);
    struct auth_tokens *tokens = context->tokens;
    *out = (struct auth_token_entry){.reason = AUTH_JWT_LENGTH};
    if (credential.length > LIMIT_JWT_BYTES)
        return true;
    if (auth_crypto_hmac(context->pepper, credential, print) != STATUS_OK)
        return false;
    if (auth_token_cache_get(tokens->good, print, now_s, out) &&
        issuers_has_key(context->issuers, out->key))
        return true;
    return auth_token_cache_get(tokens->bad, print, now_s, out) &&
           out->epoch == issuers_epoch(context->issuers);
}

bool auth_token_is_known(struct auth_method_context *context, struct slice credential)
{
    struct auth_token_entry entry;
    return known_find(context, credential, &entry);
}

/* --- the check --- */

/* Scopes that a claim's words name. */
static void scope_take(void *context, struct slice word)
{
    *(uint32_t *)context |= auth_scope_find(word);
}

static bool check_scopes(const struct auth_jwt *jwt, const struct issuer *issuer, uint32_t *out)
{
    uint32_t named = 0;
    *out = issuer->scopes;
    if (issuer->scope_claim[0] == '\0')
        return true;
    if (!auth_jwt_guard_words(jwt, issuer->scope_claim, &named, scope_take))
        return false;
    *out &= named;
    return true;
}

/* Whose it is: the claim's text is a tenant's id, or stands for one. */
static bool check_tenant(const struct auth_jwt *jwt, const struct issuer *issuer,
                         char out[LIMIT_ID_BYTES])
{
    struct slice value = auth_jwt_guard_claim(jwt, issuer->tenant_claim);
    if (value.bytes == NULL)
        return false;
    for (size_t i = 0; i < issuer->tenant_count; i++) {
        if (slice_is(value, issuer->tenants[i].value)) {
            memcpy(out, issuer->tenants[i].tenant_id, LIMIT_ID_BYTES);
            return true;
        }
    }
    if (issuer->tenant_count != 0 || value.length == 0 || value.length >= LIMIT_ID_BYTES)
        return false;
    memcpy(out, value.bytes, value.length);
    out[value.length] = '\0';
    return true;
}

static enum auth_jwt_reason check_claims(struct auth_method_context *context,
                                         const struct auth_jwt *jwt, const struct issuer *issuer,
                                         struct auth_token_entry *entry, int64_t *expires_s)
{
    const struct auth_jwt_rules rules = {.audiences = issuer->audiences,
                                         .audience_count = issuer->audience_count,
                                         .lifetime_s = issuer->max_lifetime_s};
    struct tenant tenant;
    enum auth_jwt_reason reason =
        auth_jwt_guard_claims(jwt, &rules, tenant_directory_now_s(context->tenants), expires_s);
    if (reason != AUTH_JWT_NONE)
        return reason;
    if (!check_tenant(jwt, issuer, entry->tenant_id) ||
        tenants_get(context->tenants, slice_of(entry->tenant_id), &tenant) != STATUS_OK)
        return AUTH_JWT_TENANT;
    return check_scopes(jwt, issuer, &entry->scopes) ? AUTH_JWT_NONE : AUTH_JWT_SCOPE;
}

/* Everything about a token under the issuer that it names. The signature comes before what claims
 * say, so that a stranger learns no more than which issuers and keys there are. */
static enum auth_jwt_reason check_record(struct auth_method_context *context,
                                         const struct auth_jwt *jwt,
                                         const struct issuer_record *record,
                                         struct auth_token_entry *entry, int64_t *expires_s)
{
    const struct auth_jwks_key *key = issuer_record_key(record, jwt->kid, &entry->key);
    if (key == NULL)
        return AUTH_JWT_KEY;
    enum auth_jwt_reason reason = auth_jwt_verify(jwt, key);
    if (reason != AUTH_JWT_NONE)
        return reason;
    memcpy(entry->issuer_id, issuer_record_about(record)->id, sizeof entry->issuer_id);
    memcpy(entry->key_hash, issuer_record_hash(record), sizeof entry->key_hash);
    return check_claims(context, jwt, issuer_record_about(record), entry, expires_s);
}

static enum auth_jwt_reason check_jwt(struct auth_method_context *context,
                                      const struct auth_jwt *jwt, struct auth_token_entry *entry,
                                      int64_t *expires_s)
{
    enum auth_jwt_reason reason = AUTH_JWT_KEY;
    bool is_again = true;
    for (int turn = 0; turn < 2 && is_again; turn++) { /* again when the issuer's file has news */
        struct issuer_record *record =
            issuer_record_hold(context->issuers, auth_jwt_guard_claim(jwt, "iss"));
        if (record == NULL)
            return AUTH_JWT_ISSUER;
        reason = check_record(context, jwt, record, entry, expires_s);
        is_again =
            turn == 0 && reason == AUTH_JWT_KEY && issuer_record_refresh(context->issuers, record);
        issuer_record_drop(record);
    }
    return reason;
}

enum status auth_token_check(struct auth_method_context *context, struct slice credential)
{
    struct auth_jwt jwt;
    uint8_t print[AUTH_CRYPTO_BYTES];
    int64_t expires_s = 0;
    int64_t now_s = tenant_directory_now_s(context->tenants);
    struct auth_token_entry entry = {.epoch = issuers_epoch(context->issuers)};
    enum auth_jwt_reason reason = auth_jwt_guard_open(credential, &jwt);
    if (reason == AUTH_JWT_NONE)
        reason = check_jwt(context, &jwt, &entry, &expires_s);
    auth_jwt_guard_close(&jwt);
    if (credential.length <= LIMIT_JWT_BYTES) {
        TRY(auth_crypto_hmac(context->pepper, credential, print));
        entry.reason = reason;
        int64_t until_s = now_s + (reason == AUTH_JWT_NONE ? LIMIT_TOKEN_S : LIMIT_TOKEN_BAD_S);
        if (reason == AUTH_JWT_NONE && expires_s < until_s)
            until_s = expires_s;
        auth_token_cache_put(reason == AUTH_JWT_NONE ? context->tokens->good : context->tokens->bad,
                             print, &entry, until_s);
    }
    if (reason == AUTH_JWT_NONE)
        return STATUS_OK;
    LOG(LOG_INFO, "token_refused", LOG_TEXT("reason", auth_jwt_guard_word(reason)),
        LOG_TEXT("issuer", entry.issuer_id));
    return refuse(reason);
}

/* --- the method --- */

enum status auth_token_authenticate(struct auth_method_context *context,
                                    const struct auth_credential *credential, bool want_admin,
                                    struct principal *out)
{
    struct auth_token_entry entry;
    if (want_admin)
        FAIL(STATUS_KEY_INVALID, "An issuer's token does not open the config API.");
    if (!known_find(context, credential->text, &entry))
        FAIL(STATUS_UNAVAILABLE, "The token could not be checked now; try again shortly.");
    if (entry.reason != AUTH_JWT_NONE)
        return refuse(entry.reason);
    switch (tenants_match_tenant(context->tenants, entry.tenant_id, out)) {
    case TENANT_MATCH_OPEN:
        break;
    case TENANT_MATCH_SUSPENDED:
        FAIL(STATUS_FORBIDDEN, "The tenant of this token is suspended.");
    default:
        return refuse(AUTH_JWT_TENANT);
    }
    out->scopes = entry.scopes;
    memcpy(out->key_id, entry.issuer_id, sizeof out->key_id);
    memcpy(out->key_hash, entry.key_hash, sizeof out->key_hash);
    return STATUS_OK;
}
