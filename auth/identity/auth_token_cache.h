/* auth_token_cache: remembers the results of token checks, so that a token is not checked at each
 * request.
 *
 *   print of the token (a keyed HMAC) ─► set of 8 places ─► result, and until when it holds
 *
 * Owns:     a fixed number of entries; never a token.
 * Thread:   any; a lock is held for about 50 ns.
 * Cost:     O(1). The whole memory is reserved at the start and used page by page as entries come.
 * Not here: checking a token (auth_token).
 */
#pragma once

#include "auth/credential/auth_crypto.h"
#include "auth/credential/auth_jwt_guard.h"

struct auth_token_cache;

/* The result of a check. A bad token's result uses `reason` and `epoch` alone. A token that opens
 * only the config API is good; its `reason` says why it does not open the tenants' API. */
struct auth_token_entry {
    enum auth_jwt_reason reason;
    uint64_t epoch; /* issuers_epoch when it was checked */
    uint64_t key;   /* a hash of the issuer's key and rules, for issuers_has_key */
    char issuer_id[LIMIT_ID_BYTES];
    char tenant_id[LIMIT_ID_BYTES];
    uint8_t key_hash[16]; /* the key_hash of the principal */
    uint32_t scopes;
    uint32_t admin_scopes;             /* for the config API; 0: it does not open it */
    char subject[LIMIT_SUBJECT_BYTES]; /* the subject of an admin's principal */
};

/* A cache of `entries` places, a multiple of 8. NO_MEMORY. */
enum status auth_token_cache_create(struct auth_token_cache **out, size_t entries);
void auth_token_cache_destroy(struct auth_token_cache *cache);

/* Stores a result until `until_s` (Unix time). It replaces the result under the same print, or else
 * takes a free place of the set, or else replaces the result that ends first. */
void auth_token_cache_put(struct auth_token_cache *cache, const uint8_t print[AUTH_CRYPTO_BYTES],
                          const struct auth_token_entry *entry, int64_t until_s);
/* Copies the result under a print. False when there is none that holds beyond `now_s`. */
bool auth_token_cache_get(struct auth_token_cache *cache, const uint8_t print[AUTH_CRYPTO_BYTES],
                          int64_t now_s, struct auth_token_entry *out);
