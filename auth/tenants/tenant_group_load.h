/* tenant_group_load: what the room asks of groups beyond their front door.
 *
 * Owns:     nothing by itself.
 * Thread:   load and free_all: nobody else has the directory; the rest: the holder of `change`.
 * Cost:     loading reads all rows of the table tenant_groups.
 * Not here: changes and looking (tenant_group).
 */
#pragma once

#include "auth/tenants/tenant_group_types.h"

struct sqlite3;
struct tenant_group_record;

/* CORRUPT for rows out of their bounds. */
enum status tenant_group_load(struct tenants *tenants, struct sqlite3 *connection);
void tenant_group_free_all(struct tenants *tenants);

/* The domain of the cache that the members of a group share: of `group`, or (NULL) of the one of
 * this name. False: there is none. No two groups ever have the same, whatever their names: who
 * comes into one reads nothing of another that was removed. */
bool tenant_group_domain(const struct tenants *tenants, const struct tenant_group_record *group,
                         const char *name, uint8_t out[16]);

/* A tenant, as it is (1) or was (-1), in the count of its group, if it has one. The caller holds
 * `memory` for writing. */
void tenant_group_count(struct tenants *tenants, const struct tenant *tenant, int step);

/* The group that a tenant is the first to name: `*out` NULL when it is there, or `name` empty. Its
 * row goes in with the tenant's; then it is added, or freed (NULL is fine). */
enum status tenant_group_prepare(struct tenants *tenants, struct slice name,
                                 struct tenant_group_record **out);
enum status tenant_group_insert(struct sqlite3 *connection,
                                const struct tenant_group_record *record);
/* Room in the indexes is there since it was prepared. The caller holds `memory` for writing, or
 * nobody else has the directory. */
void tenant_group_add(struct tenants *tenants, struct tenant_group_record *record);
void tenant_group_free(struct tenant_group_record *record);
