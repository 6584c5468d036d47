/* quota_limits_rows: the SQL of plans, of tenants' limits and of keys' limits; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     one SQL statement for each value or row that is written, and one for each load.
 * Not here: records in memory and rules (quota_limits).
 */
#pragma once

#include "auth/limits/quota_limits_types.h"
#include "auth/tenants/tenant_rows.h"

/* A value's owner in the table limit_values: the id of a plan or of a tenant, or "tenant/key" for a
 * key. Only a key's owner has a slash. quota_limits_rows_owner writes the owner of a key and
 * returns its length; 0 when it is too long. */
enum { QUOTA_LIMITS_OWNER_BYTES = 2 * LIMIT_ID_BYTES };
size_t quota_limits_rows_owner(struct slice tenant_id, struct slice key_id,
                               char out[QUOTA_LIMITS_OWNER_BYTES]);

/* EXISTS when the name or id is taken. */
enum status quota_limits_rows_insert(struct sqlite3 *connection, const struct quota_plan *plan);
/* Writes name, revision and limits of the row with this id. */
enum status quota_limits_rows_update(struct sqlite3 *connection, const struct quota_plan *plan);
/* Deletes the plan and its limits. Archived tenants that still refer to the plan lose it. */
enum status quota_limits_rows_delete(struct sqlite3 *connection, const char *id);
/* Writes the tenant's row and limits in place of the old ones. */
enum status quota_limits_rows_put(struct sqlite3 *connection, const struct quota_tenant *limits);
/* Writes the key's row and limits in the same way. */
enum status quota_limits_rows_put_key(struct sqlite3 *connection,
                                      const struct quota_key_limits *limits);

/* These three call `take` for each row until `take` fails. Plans come oldest first. The sets are
 * still without limits. CORRUPT for a row out of its bounds. */
enum status quota_limits_rows_load(struct sqlite3 *connection, void *context,
                                   enum status (*take)(void *context,
                                                       const struct quota_plan *plan));
enum status quota_limits_rows_load_tenants(struct sqlite3 *connection, void *context,
                                           enum status (*take)(void *context,
                                                               const struct quota_tenant *limits));
enum status quota_limits_rows_load_keys(struct sqlite3 *connection, void *context,
                                        enum status (*take)(void *context,
                                                            const struct quota_key_limits *limits));
/* Puts every value into the set of its owner. `find` returns that set, or NULL for an unknown
 * owner, which is CORRUPT. */
enum status quota_limits_rows_load_values(struct sqlite3 *connection, void *context,
                                          struct quota_limits_set *(*find)(void *context,
                                                                           const char *owner));
