/* tenant_group_load: functions of groups that only the files of this folder call.
 *
 * Owns:     nothing by itself.
 * Thread:   for load and free_all the only thread that has the directory; for the rest the holder
 *           of `change`.
 * Cost:     loading reads all rows of the table tenant_groups.
 * Not here: finding and changing groups (tenant_group).
 */
#pragma once

#include "auth/tenants/tenant_group_types.h"

struct sqlite3;
struct tenant_group_record;

/* CORRUPT for rows out of their bounds. */
enum status tenant_group_load(struct tenants *tenants, struct sqlite3 *connection);
void tenant_group_free_all(struct tenants *tenants);

/* Returns the domain of the prefix cache that the members of a group share. The group is `group`
 * or, if that is NULL, the group with this name. False when there is no such group. Two groups
 * never have the same domain, even if one was removed and the other has its name. So a new member
 * reads nothing of a group that was removed. */
bool tenant_group_domain(const struct tenants *tenants, const struct tenant_group_record *group,
                         const char *name, uint8_t out[16]);

/* Adds `step` (1 or -1) to the count of the tenant's group, if it has a group. The caller holds
 * `memory` for writing. */
void tenant_group_count(struct tenants *tenants, const struct tenant *tenant, int step);

/* Makes the group that a tenant names for the first time. `*out` is NULL when the group exists or
 * `name` is empty. The caller inserts the group's row with the tenant's, then adds the group or
 * frees it (NULL is allowed). */
enum status tenant_group_prepare(struct tenants *tenants, struct slice name,
                                 struct tenant_group_record **out);
enum status tenant_group_insert(struct sqlite3 *connection,
                                const struct tenant_group_record *record);
/* Adds a group. tenant_group_prepare has made room in the indexes. The caller holds `memory` for
 * writing, or alone has the directory. */
void tenant_group_add(struct tenants *tenants, struct tenant_group_record *record);
void tenant_group_free(struct tenant_group_record *record);
