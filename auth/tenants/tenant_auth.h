/* tenant_auth: functions of the directory of tenants that only auth calls.
 *
 * Owns:     nothing. tenant.c and tenant_key_edit.c implement them; they are private to auth/.
 * Thread:   any.
 * Cost:     a match is one look-up under a shared lock. Opaque names are computed once for each
 *           record.
 * Not here: functions for all callers (tenant).
 */
#pragma once

#include "auth/credential/auth_crypto.h"
#include "auth/credential/principal.h"
#include "auth/tenants/tenant_types.h"

/* The state of a key. The caller decides what the client is told. */
enum tenant_match {
    TENANT_MATCH_OPEN,
    TENANT_MATCH_WRONG, /* the id is unknown or the secret is wrong; both take the same time */
    TENANT_MATCH_REVOKED,
    TENANT_MATCH_EXPIRED,
    TENANT_MATCH_ARCHIVED,
    TENANT_MATCH_SUSPENDED,
};
/* Checks a key. Fills `out` unless the result is WRONG. Notes the use of an open key. */
enum tenant_match tenants_key_match(struct tenants *tenants, const char *key_id,
                                    const uint8_t hash[AUTH_CRYPTO_BYTES], struct principal *out);
/* Returns the state of a key whose secret was checked before. */
enum tenant_match tenants_key_standing(struct tenants *tenants, const char *key_id,
                                       struct principal *out);

/* Returns the state of a tenant that was authenticated without an API key, for example by a token.
 * Fills all of `out` except key_id, key_hash and scopes. */
enum tenant_match tenants_match_tenant(struct tenants *tenants, const char *tenant_id,
                                       struct principal *out);
/* Finds the tenant of an opaque name. O(tenants). NOT_FOUND. */
enum status tenants_find_hash(struct tenants *tenants, const uint8_t tenant_hash[16],
                              char tenant_id[LIMIT_ID_BYTES]);

/* Finds the tenant and its key of these opaque names. NOT_FOUND. */
enum status tenants_find_account(struct tenants *tenants, const uint8_t tenant_hash[16],
                                 const uint8_t key_hash[16], char tenant_id[LIMIT_ID_BYTES],
                                 char key_id[LIMIT_ID_BYTES]);

/* Does what tenants_key_create does, for a value that the caller made with api_key_make and has
 * stored. */
enum status tenants_key_adopt(struct tenants *tenants, const struct tenant_change *change,
                              struct slice tenant_id, const struct tenant_key_fields *fields,
                              const char *value, struct tenant_key *out);

/* The first returns the number of all keys. The second returns the number of admin keys that are
 * open now, have every bit of `scopes`, and do not end before `until_s`. With INT64_MAX it counts
 * only keys without an end, with 0 keys with any end. */
size_t tenants_key_count(struct tenants *tenants);
size_t tenants_admin_key_count(struct tenants *tenants, uint32_t scopes, int64_t until_s);
