/* tenant_group: groups of tenants: what a tenant's `group` and a prompt's grants name.
 *
 * Owns:     rows of the table tenant_groups (config/store), their records in memory.
 * Thread:   any; looking never waits for a commit, a change does (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row; removing walks the groups.
 *           Looking is O(1) a group, beside one search a published prompt.
 * Not here: what a group shares (tenant_view), who is in it (tenant).
 *
 * A group's name never changes: tenants and grants name it. What its members share of the cache is
 * found by its id, which no other group ever has. A tenant that names a group which
 * is not there makes it, in the tenant's own transaction.
 */
#pragma once

#include "auth/tenants/tenant_group_types.h"

/* `metadata` is a JSON object as text, below LIMIT_METADATA_BYTES, whose form the caller has
 * checked; bytes NULL: "{}". EXISTS for a name that is taken, CONFLICT for one group too many,
 * INVALID with param. */
enum status tenant_group_create(struct tenants *tenants, const struct tenant_change *change,
                                struct slice name, struct slice metadata, struct tenant_group *out);
/* Groups are found by id or by name. NOT_FOUND. Metadata (bytes NULL: as they are) that are as they
 * were change nothing. */
enum status tenant_group_update(struct tenants *tenants, const struct tenant_change *change,
                                struct slice group, struct slice metadata,
                                struct tenant_group *out);
/* NOT_FOUND; CONFLICT while tenants are in it or prompts granted to it. */
enum status tenant_group_delete(struct tenants *tenants, const struct tenant_change *change,
                                struct slice group, struct tenant_group *out);
enum status tenant_group_get(struct tenants *tenants, struct slice group, struct tenant_group *out);
/* Up to `capacity` groups after id `after` ("" = from the start), oldest first. */
enum status tenant_group_list(struct tenants *tenants, struct slice after, struct tenant_group *out,
                              size_t capacity, size_t *count, bool *has_more);
/* Appends the JSON object; "{}" for no group. */
void tenant_group_metadata(struct tenants *tenants, struct slice group, struct buffer *out);
/* Appends a JSON list of the ids of its tenants that are not archived, the `most` oldest. */
void tenant_group_members(struct tenants *tenants, struct slice name, size_t most,
                          struct buffer *out);
