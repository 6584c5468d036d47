#include "auth/identity/auth_token.h"

#include <stdio.h>

#include "auth/credential/auth_scope.h"
#include "auth/identity/auth_jwt.h"
#include "auth/identity/auth_token_cache.h"
#include "auth/tenants/issuer_auth.h"
#include "auth/tenants/tenant.h"
#include "auth/tenants/tenant_auth.h"
#include "auth/tenants/tenant_directory.h"
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

/* A token has dots in it; no other credential has. */
bool auth_token_recognises(const struct auth_credential *credential)
{
    struct slice text = credential->text;
    return text.length > 0 && memchr(text.bytes, '.', text.length) != NULL;
}

static enum status refuse(enum auth_jwt_reason reason)
{
    if (reason == AUTH_JWT_KEYS_UNREAD)
        FAIL(STATUS_UNAVAILABLE, "%s", auth_jwt_guard_text(reason));
    FAIL(STATUS_KEY_INVALID, "%s", auth_jwt_guard_text(reason));
}

/* Finds the remembered result of a token. False: it must be checked. */
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

/* Adds the scope that a word of the claim names. */
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

/* Finds the token's tenant. The claim's text is a tenant's id or, if the issuer has a table of
 * values, a value of the table. */
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

/* The scopes of the config API that an issuer's table gives for the words of a claim. */
struct admin_words {
    const struct issuer *issuer;
    uint32_t scopes;
};

static void admin_take(void *context, struct slice word)
{
    struct admin_words *words = context;
    for (size_t i = 0; i < words->issuer->admin_count; i++) {
        if (slice_is(word, words->issuer->admins[i].value))
            words->scopes |= words->issuer->admins[i].scopes;
    }
}

static uint32_t check_admin(const struct auth_jwt *jwt, const struct issuer *issuer)
{
    struct admin_words words = {.issuer = issuer};
    if (issuer->admin_claim[0] == '\0' ||
        !auth_jwt_guard_words(jwt, issuer->admin_claim, &words, admin_take))
        return 0;
    return words.scopes;
}

/* Copies the token's "sub" for the audit. Bytes other than visible ASCII become '?', because an
 * issuer can write anything there. */
static void check_subject(const struct auth_jwt *jwt, char out[LIMIT_SUBJECT_BYTES])
{
    struct slice text = auth_jwt_guard_claim(jwt, "sub");
    bool is_cut = text.length >= LIMIT_SUBJECT_BYTES;
    size_t length = is_cut ? LIMIT_SUBJECT_BYTES - 4 : text.length;
    for (size_t i = 0; i < length; i++)
        out[i] = text.bytes[i] > ' ' && text.bytes[i] <= '~' ? text.bytes[i] : '?';
    snprintf(out + length, LIMIT_SUBJECT_BYTES - length, "%s", is_cut ? "..." : "");
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
    entry->admin_scopes = check_admin(jwt, issuer);
    if (entry->admin_scopes != 0)
        check_subject(jwt, entry->subject);
    if (!check_tenant(jwt, issuer, entry->tenant_id) ||
        tenants_get(context->tenants, slice_of(entry->tenant_id), &tenant) != STATUS_OK)
        return AUTH_JWT_TENANT;
    return check_scopes(jwt, issuer, &entry->scopes) ? AUTH_JWT_NONE : AUTH_JWT_SCOPE;
}

/* Checks a token with the keys and rules of the issuer that it names. The signature is checked
 * before the claims, so that a stranger learns no more than which issuers and keys there are. */
static enum auth_jwt_reason check_record(struct auth_method_context *context,
                                         const struct auth_jwt *jwt,
                                         const struct issuer_record *record,
                                         struct auth_token_entry *entry, int64_t *expires_s)
{
    const struct auth_jwks_key *key =
        issuer_record_key(record, jwt->kid, tenant_directory_now_s(context->tenants), &entry->key);
    if (key == NULL)
        return issuer_record_has_keys(record) ? AUTH_JWT_KEY : AUTH_JWT_KEYS_UNREAD;
    enum auth_jwt_reason reason = auth_jwt_verify(jwt, key);
    if (reason != AUTH_JWT_NONE)
        return reason;
    memcpy(entry->issuer_id, issuer_record_about(record)->id, sizeof entry->issuer_id);
    memcpy(entry->key_hash, issuer_record_hash(record), sizeof entry->key_hash);
    return check_claims(context, jwt, issuer_record_about(record), entry, expires_s);
}

static bool is_about_key(enum auth_jwt_reason reason)
{
    return reason == AUTH_JWT_KEY || reason == AUTH_JWT_KEYS_UNREAD;
}

/* Sets `*is_awaited` when the result may change once the issuer's keys have been fetched. */
static enum auth_jwt_reason check_jwt(struct auth_method_context *context,
                                      const struct auth_jwt *jwt, struct auth_token_entry *entry,
                                      int64_t *expires_s, bool *is_awaited)
{
    enum auth_jwt_reason reason = AUTH_JWT_KEY;
    enum issuer_news news = ISSUER_NEWS_KEYS;
    for (int turn = 0; turn < 2 && news == ISSUER_NEWS_KEYS; turn++) {
        struct issuer_record *record =
            issuer_record_hold(context->issuers, auth_jwt_guard_claim(jwt, "iss"));
        if (record == NULL)
            return AUTH_JWT_ISSUER;
        reason = check_record(context, jwt, record, entry, expires_s);
        news = turn == 0 && is_about_key(reason) ? issuer_record_refresh(context->issuers, record)
                                                 : ISSUER_NEWS_NONE;
        issuer_record_drop(record);
    }
    *is_awaited = news == ISSUER_NEWS_AWAITED;
    return reason;
}

/* Remembers the result of a check. */
static enum status check_keep(struct auth_method_context *context, struct slice credential,
                              const struct auth_token_entry *entry, int64_t expires_s)
{
    uint8_t print[AUTH_CRYPTO_BYTES];
    bool is_good = entry->reason == AUTH_JWT_NONE || entry->admin_scopes != 0;
    int64_t now_s = tenant_directory_now_s(context->tenants);
    int64_t until_s = now_s + (is_good ? LIMIT_TOKEN_S : LIMIT_TOKEN_BAD_S);
    TRY(auth_crypto_hmac(context->pepper, credential, print));
    if (is_good && expires_s < until_s)
        until_s = expires_s;
    auth_token_cache_put(is_good ? context->tokens->good : context->tokens->bad, print, entry,
                         until_s);
    return STATUS_OK;
}

enum status auth_token_check(struct auth_method_context *context, struct slice credential,
                             bool may_wait)
{
    struct auth_jwt jwt;
    int64_t expires_s = 0;
    bool is_awaited = false;
    struct auth_token_entry entry = {.epoch = issuers_epoch(context->issuers)};
    entry.reason = auth_jwt_guard_open(credential, &jwt);
    if (entry.reason == AUTH_JWT_NONE)
        entry.reason = check_jwt(context, &jwt, &entry, &expires_s, &is_awaited);
    auth_jwt_guard_close(&jwt);
    if (is_awaited && may_wait)
        FAIL(STATUS_BUSY, "The keys of the token's issuer are being fetched.");
    if (credential.length <= LIMIT_JWT_BYTES)
        TRY(check_keep(context, credential, &entry, expires_s));
    if (entry.reason == AUTH_JWT_NONE || entry.admin_scopes != 0)
        return STATUS_OK;
    LOG(LOG_INFO, "token_refused", LOG_TEXT("reason", auth_jwt_guard_word(entry.reason)),
        LOG_TEXT("issuer", entry.issuer_id));
    return refuse(entry.reason);
}

/* --- the method --- */

static enum status authenticate_refuse(struct auth_method_context *context,
                                       enum auth_jwt_reason reason)
{
    atomic_fetch_add(&context->refused[reason], 1); /* a reason is its own enum auth_refusal */
    return refuse(reason);
}

/* Authenticates an admin, with the scopes that the issuer's table gives and no more. */
static enum status authenticate_admin(struct auth_method_context *context,
                                      const struct auth_token_entry *entry, struct principal *out)
{
    if (entry->admin_scopes == 0)
        return authenticate_refuse(context, entry->reason == AUTH_JWT_NONE ||
                                                    entry->reason == AUTH_JWT_TENANT ||
                                                    entry->reason == AUTH_JWT_SCOPE
                                                ? AUTH_JWT_ADMIN
                                                : entry->reason);
    *out = (struct principal){
        .is_admin = true, .proof = entry->key, .scopes = entry->admin_scopes & AUTH_SCOPES_ADMIN};
    memcpy(out->key_id, entry->issuer_id, sizeof out->key_id);
    memcpy(out->subject, entry->subject, sizeof out->subject);
    return STATUS_OK;
}

enum status auth_token_authenticate(struct auth_method_context *context,
                                    const struct auth_credential *credential, bool want_admin,
                                    struct principal *out)
{
    struct auth_token_entry entry;
    if (!known_find(context, credential->text, &entry)) {
        atomic_fetch_add(&context->refused[AUTH_REFUSAL_UNCHECKED], 1);
        FAIL(STATUS_UNAVAILABLE, "The token could not be checked now; try again shortly.");
    }
    if (want_admin)
        return authenticate_admin(context, &entry, out);
    if (entry.reason != AUTH_JWT_NONE)
        return authenticate_refuse(context, entry.reason);
    switch (tenants_match_tenant(context->tenants, entry.tenant_id, out)) {
    case TENANT_MATCH_OPEN:
        break;
    case TENANT_MATCH_SUSPENDED:
        atomic_fetch_add(&context->refused[AUTH_REFUSAL_SUSPENDED], 1);
        FAIL(STATUS_FORBIDDEN, "The tenant of this token is suspended.");
    default:
        return authenticate_refuse(context, AUTH_JWT_TENANT);
    }
    out->scopes = entry.scopes;
    out->proof = entry.key;
    memcpy(out->key_id, entry.issuer_id, sizeof out->key_id);
    memcpy(out->key_hash, entry.key_hash, sizeof out->key_hash);
    return STATUS_OK;
}
