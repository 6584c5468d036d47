/* tenant_limits: what the directory of tenants asks of the limits, which stand above it.
 *
 * Owns:     nothing; tenants_options names who answers (quota_limits_hooks).
 * Thread:   load and free_all: tenants_open's and tenants_close's; the rest: as said at each.
 * Cost:     as quota_limits_load says.
 * Not here: limits themselves (quota_limits, quota_limits_key).
 */
#pragma once

#include "auth/credential/principal.h"
#include "auth/tenants/tenant_records.h"

/* All functions are required. */
struct tenant_limits {
    /* Behind the tenants. CORRUPT or LIMIT for rows out of their bounds. */
    enum status (*load)(struct tenants *tenants, struct sqlite3 *connection);
    void (*free_all)(struct tenants *tenants);
    /* Weight and classes of a tenant's requests. The caller holds `memory`. */
    void (*tenant_class)(const struct tenant_record *record, struct principal *out);
    /* The classes of the key that the principal came with. Any thread. */
    void (*key_class)(struct tenants *tenants, struct principal *principal);
    /* Whether there is a plan of this id. Any thread. */
    bool (*has_plan)(struct tenants *tenants, struct slice id);
    /* The id of the plan that a tenant's limits name; "" = none. The caller holds `memory`. */
    const char *(*plan_id)(const struct tenant_record *record);
    /* A key takes the place of another: its limits (NULL when there are none) are made before the
     * commit, written in it, then taken or freed. The caller holds `change`. */
    enum status (*key_follow)(struct tenants *tenants, const struct tenant_key *old,
                              const char *new_id, struct quota_key_record **out);
    enum status (*key_follow_rows)(struct sqlite3 *connection,
                                   const struct quota_key_record *record);
    void (*key_follow_end)(struct tenants *tenants, struct quota_key_record *record, bool is_done);
};
