/* quota_limits_load: what limits share beyond their front doors: plans, tenants' and keys' limits
 * at the start and the end of the directory, and how they change.
 *
 * Owns:     nothing by itself.
 * Thread:   loading and freeing: tenants_open's and tenants_close's, nobody else has the directory;
 *           the rest: the holder of `change`.
 * Cost:     loading: all rows of the tables plans, tenant_limits, key_limits and limit_values.
 * Not here: looking (quota_limits, quota_limits_key).
 */
#pragma once

#include "auth/limits/quota_limits_types.h"
#include "auth/tenants/tenant_records.h"

struct principal;
struct sqlite3;
struct quota_key_record;

/* Behind the tenants. CORRUPT or LIMIT for rows out of their bounds. */
enum status quota_limits_load(struct tenants *tenants, struct sqlite3 *connection);
void quota_limits_free_all(struct tenants *tenants);
enum status quota_limits_key_load(void *context, const struct quota_key_limits *limits);
/* The set of the owner of this name; NULL. */
struct quota_limits_set *quota_limits_key_owner(struct tenants *tenants, const char *owner);
void quota_limits_key_free_all(struct tenants *tenants);

/* Every value in its range; OUT_OF_RANGE with param. */
enum status quota_limits_check(const struct quota_limits_set *set);
bool quota_limits_is_same(const struct quota_limits_set *a, const struct quota_limits_set *b);
/* Memory was changed under `memory`, which it lets go: whoever has resolved limits does so again.
 */
void quota_limits_changed(struct tenants *tenants);

/* Weight and classes of a request: as the tenant's limits say, else its plan, else the tenant. The
 * caller holds `memory`. */
void quota_limits_class(const struct tenant_record *record, struct principal *out);

/* A key takes the place of another: its limits (NULL when there are none), made before the commit,
 * written in it, then taken or freed. */
enum status quota_limits_key_follow(struct tenants *tenants, const struct tenant_key *old,
                                    const char *new_id, struct quota_key_record **out);
enum status quota_limits_key_follow_rows(struct sqlite3 *connection,
                                         const struct quota_key_record *record);
void quota_limits_key_follow_end(struct tenants *tenants, struct quota_key_record *record,
                                 bool is_done);
