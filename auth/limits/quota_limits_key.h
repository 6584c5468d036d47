/* quota_limits_key: limits and classes of a key beside its tenant's; of a token's issuer for one
 * tenant, too.
 *
 * Owns:     rows of the table key_limits (config/store) and their values, their records in memory.
 * Thread:   any; looking never waits for a commit, a change does (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row; looking is O(1).
 * Not here: tenants' limits and plans (quota_limits), who is refused (quota).
 *
 * A request passes the limits of its key and those of its tenant, or is charged to neither. A key
 * that takes another's place (tenants_key_rotate) begins with that one's limits.
 */
#pragma once

#include "auth/limits/quota_limits_types.h"

struct principal;

/* All of it is replaced by `set`. Whether there is such a key is for the caller to know. NOT_FOUND
 * for an unknown tenant, CONFLICT for an archived one or when LIMIT_KEYS have limits of their own;
 * INVALID or OUT_OF_RANGE with param. */
enum status quota_limits_key_put(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice tenant_id, struct slice key_id,
                                 const struct quota_limits_set *set, struct quota_key_limits *out);
/* None of its own is no failure: revision 0. NOT_FOUND for an unknown tenant. */
enum status quota_limits_key_get(struct tenants *tenants, struct slice tenant_id,
                                 struct slice key_id, struct quota_key_limits *out);
/* False, and `out` untouched, when nothing was ever set. Where no key has limits that is one load.
 */
bool quota_limits_key_resolve(struct tenants *tenants, const char *tenant_id, const char *key_id,
                              struct quota_limits_set *out);
/* The classes of the key that the principal came with, no better than its tenant's best. */
void quota_limits_key_class(struct tenants *tenants, struct principal *principal);
