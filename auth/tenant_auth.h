/* tenant_auth: what auth asks of the directory of tenants beyond its front door.
 *
 * Owns:     nothing; implemented in tenant.c, private to the room.
 * Thread:   any.
 * Cost:     a match is two look-ups under a shared lock.
 * Not here: everything that others may ask (tenant).
 */
#pragma once

#include "auth/auth_crypto.h"
#include "auth/tenant.h"

/* How a key stands; whoever calls decides what the client hears. */
enum tenant_match {
    TENANT_MATCH_OPEN,
    TENANT_MATCH_WRONG, /* unknown id or other secret, which take the same time */
    TENANT_MATCH_REVOKED,
    TENANT_MATCH_EXPIRED,
    TENANT_MATCH_ARCHIVED,
    TENANT_MATCH_SUSPENDED,
};
enum tenant_match tenants_key_match(struct tenants *tenants, const char *key_id,
                                    const uint8_t hash[AUTH_CRYPTO_BYTES], int64_t now_s,
                                    struct tenant_key *key, struct tenant *tenant);

/* tenants_key_create for a value that auth_apikey_make gave and the caller has kept already. */
enum status tenants_key_adopt(struct tenants *tenants, const struct audit_actor *actor,
                              struct slice tenant_id, struct slice name, uint32_t scopes,
                              const char *value, struct tenant_key *out);

/* Keys in all, and admin keys that are not revoked and have every bit of `scopes`. */
size_t tenants_key_count(struct tenants *tenants);
size_t tenants_admin_key_count(struct tenants *tenants, uint32_t scopes);
