/* quota_limits_key: the limits and classes that a key has beside its tenant's.
 *
 * Owns:     rows of the table key_limits (config/store) and their values, their records in memory.
 * Thread:   any. A look-up never waits for a commit; a change waits (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row; a look-up is O(1).
 * Not here: tenants' limits and plans (quota_limits), who is refused (quota).
 *
 * A key is an API key, a client certificate, or an issuer. The tokens of one issuer for one tenant
 * share that key's limits. A request is charged to its key and to its tenant; when one of them
 * refuses it, it is charged to neither. When a key is rotated (tenants_key_rotate), the new key
 * begins with the old key's limits.
 */
#pragma once

#include "auth/limits/quota_limits_types.h"

struct principal;

/* Replaces all limits and classes of the key by `set`. The caller checks that the key exists.
 * NOT_FOUND for an unknown tenant. CONFLICT for an archived tenant, or when LIMIT_KEYS keys have
 * limits of their own. OUT_OF_RANGE with param. */
enum status quota_limits_key_put(struct tenants *tenants, const struct tenant_change *change,
                                 struct slice tenant_id, struct slice key_id,
                                 const struct quota_limits_set *set, struct quota_key_limits *out);
/* Returns the key's own limits; revision 0 when it has none. NOT_FOUND for an unknown tenant. */
enum status quota_limits_key_get(struct tenants *tenants, struct slice tenant_id,
                                 struct slice key_id, struct quota_key_limits *out);
/* False, with `out` unchanged, when the key never had limits of its own. It costs one atomic load
 * as long as no key has limits. */
bool quota_limits_key_resolve(struct tenants *tenants, const char *tenant_id, const char *key_id,
                              struct quota_limits_set *out);
/* Gives the principal the classes of its key, where the key has any. They are never better than its
 * tenant's best class. */
void quota_limits_key_class(struct tenants *tenants, struct principal *principal);
