/* tenant_group_load: what the room asks of groups beyond their front door.
 *
 * Owns:     nothing by itself.
 * Thread:   load and free_all: nobody else has the directory; the rest: the holder of `change`.
 * Cost:     loading reads all rows of the table tenant_groups.
 * Not here: changes and looking (tenant_group).
 */
#pragma once

#include "auth/tenant_group.h"

struct sqlite3;
struct tenant_group_record;

/* CORRUPT for rows out of their bounds. */
enum status tenant_group_load(struct tenants *tenants, struct sqlite3 *connection);
void tenant_group_free_all(struct tenants *tenants);

/* The group that a tenant is the first to name: `*out` NULL when it is there, or `name` empty. Its
 * row goes in with the tenant's; then it is added, or freed (NULL is fine). */
enum status tenant_group_prepare(struct tenants *tenants, struct slice name,
                                 struct tenant_group_record **out);
enum status tenant_group_insert(struct sqlite3 *connection,
                                const struct tenant_group_record *record);
/* The caller holds `memory` for writing, or nobody else has the directory. */
void tenant_group_add(struct tenants *tenants, struct tenant_group_record *record);
void tenant_group_free(struct tenant_group_record *record);
