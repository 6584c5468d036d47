/* tenant_directory: the records in memory behind struct tenants, and the locks around them.
 *
 * Owns:     the records and three indexes. Records live as long as the directory and are never
 *           moved.
 * Thread:   as said at each function. A change holds `change` from its checks until it is in
 *           memory. It holds `memory` for writing only while readers could see half of the change.
 * Cost:     O(1), except tenant_directory_reserve, which copies a full table.
 * Not here: what a record is (tenant_records), rows in the file (tenant_rows), rules (tenant_edit,
 *           tenant_key_edit).
 */
#pragma once

#include "auth/tenants/tenant_records.h"

int64_t tenant_directory_now_s(const struct tenants *tenants);

/* These make records with their opaque names. They return NULL, with the error in status_note, on
 * failure. `metadata` may be empty. `group` is the tenant's group if the directory does not have it
 * yet, otherwise NULL. */
struct tenant_record *tenant_directory_make(const struct tenants *tenants,
                                            const struct tenant *tenant,
                                            const struct tenant_group_record *group,
                                            struct slice metadata);
struct tenant_key_record *tenant_directory_make_key(const struct tenants *tenants,
                                                    const struct tenant_rows_key *row,
                                                    struct tenant_record *owner);
void tenant_directory_free(struct tenant_record *record);
void tenant_directory_free_key(struct tenant_key_record *record);

/* These make room for one more entry in an index, for a tenant, and for a key. The caller holds
 * `change`. Readers wait for O(1). */
enum status tenant_directory_reserve_in(struct tenants *tenants, struct auth_index *index);
enum status tenant_directory_reserve(struct tenants *tenants);
enum status tenant_directory_reserve_key(struct tenants *tenants);

/* These add a record to the lists and indexes, which have room, so they cannot fail. They take
 * `memory` themselves. */
void tenant_directory_add(struct tenants *tenants, struct tenant_record *record);
void tenant_directory_add_key(struct tenants *tenants, struct tenant_key_record *record);

/* These find a record; NULL when there is none. A key is found only if it belongs to the tenant
 * ("": to the admins). The caller holds `change` or `memory`. */
struct tenant_record *tenant_directory_find(struct tenants *tenants, struct slice id);
struct tenant_key_record *tenant_directory_find_key(struct tenants *tenants, struct slice tenant_id,
                                                    struct slice key_id);
struct tenant_key_record *tenant_directory_find_name(struct tenants *tenants,
                                                     const uint8_t key_name[16]);

/* Copies a key, with its last use. */
void tenant_directory_read_key(const struct tenant_key_record *record, struct tenant_key *out);

/* Whether the key is neither revoked nor expired at that time. Its tenant's state does not
 * count. */
bool tenant_directory_key_is_open(const struct tenant_key *key, int64_t now_s);

/* Frees all records. No other thread may use the directory any more. */
void tenant_directory_deinit(struct tenants *tenants);
