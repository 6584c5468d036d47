/* tenant_directory: the records in memory behind struct tenants, and the locks around them.
 *
 * Owns:     records, which live as long as the directory and are never moved, and three indexes.
 * Thread:   as said at each function. `change` is held from a change's checks to its place in
 *           memory; `memory` only for the moment in which readers could see half of it.
 * Cost:     O(1) but for tenant_directory_reserve, which copies a table that is full.
 * Not here: what a record is (tenant_records), rows in the file (tenant_rows), rules (tenant_edit,
 *           tenant_key_edit).
 */
#pragma once

#include "auth/tenants/tenant_records.h"

int64_t tenant_directory_now_s(const struct tenants *tenants);

/* New records with their opaque names; NULL and the note when they cannot be made. `metadata` may
 * be empty; `group` is the tenant's when it is not in the directory yet, or NULL. */
struct tenant_record *tenant_directory_make(const struct tenants *tenants,
                                            const struct tenant *tenant,
                                            const struct tenant_group_record *group,
                                            struct slice metadata);
struct tenant_key_record *tenant_directory_make_key(const struct tenants *tenants,
                                                    const struct tenant_rows_key *row,
                                                    struct tenant_record *owner);
void tenant_directory_free(struct tenant_record *record);
void tenant_directory_free_key(struct tenant_key_record *record);

/* Room for one more in an index, for a tenant, for a key. The caller holds `change`; readers wait
 * for O(1). */
enum status tenant_directory_reserve_in(struct tenants *tenants, struct auth_index *index);
enum status tenant_directory_reserve(struct tenants *tenants);
enum status tenant_directory_reserve_key(struct tenants *tenants);

/* Into lists and indexes, which have the room: cannot fail. They take `memory` themselves. */
void tenant_directory_add(struct tenants *tenants, struct tenant_record *record);
void tenant_directory_add_key(struct tenants *tenants, struct tenant_key_record *record);

/* The caller holds `change` or `memory`. NULL, or the record; a key only if it is the tenant's ("":
 * the admins'). */
struct tenant_record *tenant_directory_find(struct tenants *tenants, struct slice id);
struct tenant_key_record *tenant_directory_find_key(struct tenants *tenants, struct slice tenant_id,
                                                    struct slice key_id);
struct tenant_key_record *tenant_directory_find_name(struct tenants *tenants,
                                                     const uint8_t key_name[16]);

/* A key as others see it: with its last use. */
void tenant_directory_read_key(const struct tenant_key_record *record, struct tenant_key *out);

/* Whether it opens anything at that time, its tenant's state aside. */
bool tenant_directory_key_is_open(const struct tenant_key *key, int64_t now_s);

/* All records; nobody else uses the directory any more. */
void tenant_directory_deinit(struct tenants *tenants);
