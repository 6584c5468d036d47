/* auth_token_cache: what was found out about tokens, so that each is checked once in a while and
 * not at each request.
 *
 *   print of the token ─► set of 8 places ─► who it stands for, until when
 *
 * Owns:     a fixed number of entries; never a token.
 * Thread:   any; a lock held for some 50 ns.
 * Cost:     O(1); memory is touched as entries come.
 * Not here: what makes a token good (auth_token).
 */
#pragma once

#include "auth/credential/auth_crypto.h"
#include "auth/credential/auth_jwt_guard.h"

struct auth_token_cache;

/* A good token's; of a bad one `reason` and `epoch` alone. One that opens the config API alone is
 * good, with the reason why it does not open the tenants'. */
struct auth_token_entry {
    enum auth_jwt_reason reason;
    uint64_t epoch; /* of the issuers when it was checked */
    uint64_t key;   /* the print of the key and of its issuer's rules */
    char issuer_id[LIMIT_ID_BYTES];
    char tenant_id[LIMIT_ID_BYTES];
    uint8_t key_hash[16]; /* principal's */
    uint32_t scopes;
    uint32_t admin_scopes;             /* of the config API; 0: it does not open it */
    char subject[LIMIT_SUBJECT_BYTES]; /* of an admin's */
};

/* At most `entries` (a multiple of 8). NO_MEMORY. */
enum status auth_token_cache_create(struct auth_token_cache **out, size_t entries);
void auth_token_cache_destroy(struct auth_token_cache *cache);

/* In place of what was there under this print, of a free place, or of the one that ends first. */
void auth_token_cache_put(struct auth_token_cache *cache, const uint8_t print[AUTH_CRYPTO_BYTES],
                          const struct auth_token_entry *entry, int64_t until_s);
/* False when there is none, or none that lasts beyond `now_s`. */
bool auth_token_cache_get(struct auth_token_cache *cache, const uint8_t print[AUTH_CRYPTO_BYTES],
                          int64_t now_s, struct auth_token_entry *out);
