/* quota_limits_load: functions that the files of limits share: loading and freeing plans and
 * limits, checking a set, following a key that is rotated.
 *
 * Owns:     nothing.
 * Thread:   for loading and freeing the thread of tenants_open or tenants_close, which alone has
 *           the directory; for the rest the holder of `change`.
 * Cost:     loading reads all rows of the tables plans, tenant_limits, key_limits and limit_values.
 * Not here: look-ups and changes (quota_limits, quota_limits_key).
 */
#pragma once

#include "auth/limits/quota_limits_types.h"
#include "auth/tenants/tenant_records.h"

struct principal;
struct sqlite3;
struct quota_key_record;

/* Loads plans and limits, after the tenants. CORRUPT or LIMIT for rows out of their bounds. */
enum status quota_limits_load(struct tenants *tenants, struct sqlite3 *connection);
void quota_limits_free_all(struct tenants *tenants);
enum status quota_limits_key_load(void *context, const struct quota_key_limits *limits);
/* Finds the set of the key with this owner text ("tenant/key"); NULL when there is none. */
struct quota_limits_set *quota_limits_key_owner(struct tenants *tenants, const char *owner);
void quota_limits_key_free_all(struct tenants *tenants);

/* Checks that every value is in its range. OUT_OF_RANGE with param. */
enum status quota_limits_check(const struct quota_limits_set *set);
bool quota_limits_is_same(const struct quota_limits_set *a, const struct quota_limits_set *b);
/* Call it after a change of limits, with `memory` held for writing. Raises the generation, so that
 * limits are resolved again, and releases `memory`. */
void quota_limits_changed(struct tenants *tenants);

/* Sets the weight and the classes of a tenant's requests. Each comes from the tenant's limits, or
 * else from its plan, or else from the tenant. The caller holds `memory`. */
void quota_limits_class(const struct tenant_record *record, struct principal *out);

/* These copy the limits of a key that is rotated to the new key. The first makes the record before
 * the commit (NULL when the old key has no limits). The second writes it in the transaction. The
 * third adds it, or frees it when the change failed. */
enum status quota_limits_key_follow(struct tenants *tenants, const struct tenant_key *old,
                                    const char *new_id, struct quota_key_record **out);
enum status quota_limits_key_follow_rows(struct sqlite3 *connection,
                                         const struct quota_key_record *record);
void quota_limits_key_follow_end(struct tenants *tenants, struct quota_key_record *record,
                                 bool is_done);
