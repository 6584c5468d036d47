/* tenant_group: groups of tenants, which a tenant's `group` and a prompt's grants name.
 *
 * Owns:     rows of the table tenant_groups (config/store), their records in memory.
 * Thread:   any. A look-up never waits for a commit; a change waits (auth/tenants/tenant.h).
 * Cost:     a change is one committed transaction with its audit row; deleting walks the groups. A
 *           look-up is O(1) a group, and one search for each published prompt.
 * Not here: what a group shares (tenant_view), which tenants are in it (tenant).
 *
 * A group's name never changes, because tenants and grants refer to it. The domain in which its
 * members share cached pages is made from its id, which no other group ever has. Making a tenant
 * with a group that does not exist makes the group too, in the same transaction.
 */
#pragma once

#include "auth/tenants/tenant_group_types.h"

/* `metadata` is a JSON object as text, below LIMIT_METADATA_BYTES, whose form the caller has
 * checked; bytes NULL: "{}". EXISTS for a name that is taken, CONFLICT for one group too many,
 * INVALID with param. */
enum status tenant_group_create(struct tenants *tenants, const struct tenant_change *change,
                                struct slice name, struct slice metadata, struct tenant_group *out);
/* Changes the metadata; `bytes` NULL, or the old metadata, changes nothing. NOT_FOUND. In this and
 * the next two functions, `group` is a group's id or its name. */
enum status tenant_group_update(struct tenants *tenants, const struct tenant_change *change,
                                struct slice group, struct slice metadata,
                                struct tenant_group *out);
/* Deletes a group. NOT_FOUND for an unknown group; CONFLICT while tenants are in the group or
 * prompts are granted to it. */
enum status tenant_group_delete(struct tenants *tenants, const struct tenant_change *change,
                                struct slice group, struct tenant_group *out);
enum status tenant_group_get(struct tenants *tenants, struct slice group, struct tenant_group *out);
/* Lists up to `capacity` groups after id `after` ("": from the start), oldest first. */
enum status tenant_group_list(struct tenants *tenants, struct slice after, struct tenant_group *out,
                              size_t capacity, size_t *count, bool *has_more);
/* Appends the group's metadata as a JSON object; "{}" when there is no such group. */
void tenant_group_metadata(struct tenants *tenants, struct slice group, struct buffer *out);
/* Appends a JSON list of the ids of the group's tenants that are not archived, oldest first, at
 * most `most`. */
void tenant_group_members(struct tenants *tenants, struct slice name, size_t most,
                          struct buffer *out);
