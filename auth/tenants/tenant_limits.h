/* tenant_limits: the functions of auth/limits that the directory of tenants calls. They are passed
 * in, because auth/limits includes the directory.
 *
 * Owns:     nothing. tenants_options has a pointer to them (quota_limits_hooks).
 * Thread:   for load and free_all the thread of tenants_open or tenants_close; for the rest as said
 *           at each.
 * Cost:     as quota_limits_load says.
 * Not here: limits themselves (quota_limits, quota_limits_key).
 */
#pragma once

#include "auth/credential/principal.h"
#include "auth/tenants/tenant_records.h"

/* All functions are required. */
struct tenant_limits {
    /* Loads plans and limits, after the tenants. CORRUPT or LIMIT for rows out of their bounds. */
    enum status (*load)(struct tenants *tenants, struct sqlite3 *connection);
    void (*free_all)(struct tenants *tenants);
    /* Sets the weight and the classes of a tenant's requests. The caller holds `memory`. */
    void (*tenant_class)(const struct tenant_record *record, struct principal *out);
    /* Applies the classes of the principal's key. Any thread. */
    void (*key_class)(struct tenants *tenants, struct principal *principal);
    /* Whether a plan has this id. Any thread. */
    bool (*has_plan)(struct tenants *tenants, struct slice id);
    /* Returns the id of the tenant's plan; "" = none. The caller holds `memory`. */
    const char *(*plan_id)(const struct tenant_record *record);
    /* These copy the limits of a key that is rotated to the new key. key_follow makes the record
     * before the commit (NULL when the old key has no limits). key_follow_rows writes it in the
     * transaction. key_follow_end adds it, or frees it when the change failed. The caller holds
     * `change`. */
    enum status (*key_follow)(struct tenants *tenants, const struct tenant_key *old,
                              const char *new_id, struct quota_key_record **out);
    enum status (*key_follow_rows)(struct sqlite3 *connection,
                                   const struct quota_key_record *record);
    void (*key_follow_end)(struct tenants *tenants, struct quota_key_record *record, bool is_done);
};
