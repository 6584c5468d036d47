/* tenant_auth: what auth asks of the directory of tenants beyond its front door.
 *
 * Owns:     nothing; implemented in tenant.c and tenant_key_edit.c, private to the room.
 * Thread:   any.
 * Cost:     a match is one look-up under a shared lock; opaque names are computed once a record.
 * Not here: everything that others may ask (tenant).
 */
#pragma once

#include "auth/credential/auth_crypto.h"
#include "auth/credential/principal.h"
#include "auth/tenants/tenant_types.h"

/* How a key stands; whoever calls decides what the client hears. */
enum tenant_match {
    TENANT_MATCH_OPEN,
    TENANT_MATCH_WRONG, /* unknown id or other secret, which take the same time */
    TENANT_MATCH_REVOKED,
    TENANT_MATCH_EXPIRED,
    TENANT_MATCH_ARCHIVED,
    TENANT_MATCH_SUSPENDED,
};
/* `out` is filled unless the answer is WRONG; a use of an open key is noted. */
enum tenant_match tenants_key_match(struct tenants *tenants, const char *key_id,
                                    const uint8_t hash[AUTH_CRYPTO_BYTES], struct principal *out);
/* The same of a key that has proved itself before. */
enum tenant_match tenants_key_standing(struct tenants *tenants, const char *key_id,
                                       struct principal *out);

/* A tenant for which something else than a key of its own has spoken: all of `out` but key_id,
 * key_hash and scopes. */
enum tenant_match tenants_match_tenant(struct tenants *tenants, const char *tenant_id,
                                       struct principal *out);
/* The tenant of this opaque name, O(tenants). NOT_FOUND. */
enum status tenants_find_hash(struct tenants *tenants, const uint8_t tenant_hash[16],
                              char tenant_id[LIMIT_ID_BYTES]);

/* The tenant's key of these opaque names. NOT_FOUND. */
enum status tenants_find_account(struct tenants *tenants, const uint8_t tenant_hash[16],
                                 const uint8_t key_hash[16], char tenant_id[LIMIT_ID_BYTES],
                                 char key_id[LIMIT_ID_BYTES]);

/* tenants_key_create for a value that api_key_make gave and the caller has kept already. */
enum status tenants_key_adopt(struct tenants *tenants, const struct tenant_change *change,
                              struct slice tenant_id, const struct tenant_key_fields *fields,
                              const char *value, struct tenant_key *out);

/* Keys in all, and admin keys that are open now, last until `until_s` at least (INT64_MAX: have no
 * end; 0: whatever their end) and have every bit of `scopes`. */
size_t tenants_key_count(struct tenants *tenants);
size_t tenants_admin_key_count(struct tenants *tenants, uint32_t scopes, int64_t until_s);
