/* quota_limits_rows: the SQL of plans, of tenants' and of keys' limits; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     a statement a row.
 * Not here: records in memory and rules (quota_limits).
 */
#pragma once

#include "auth/limits/quota_limits_types.h"
#include "auth/tenants/tenant_rows.h"

/* Whose a value is: a plan's or a tenant's id, or of a key "tenant/key", which has no other
 * owner's form. 0: it cannot be one. */
enum { QUOTA_LIMITS_OWNER_BYTES = 2 * LIMIT_ID_BYTES };
size_t quota_limits_rows_owner(struct slice tenant_id, struct slice key_id,
                               char out[QUOTA_LIMITS_OWNER_BYTES]);

/* EXISTS when the name or id is taken. */
enum status quota_limits_rows_insert(struct sqlite3 *connection, const struct quota_plan *plan);
/* Name, revision and limits of the row with this id. */
enum status quota_limits_rows_update(struct sqlite3 *connection, const struct quota_plan *plan);
/* The plan and its limits; tenants that still name it (archived ones) lose it. */
enum status quota_limits_rows_delete(struct sqlite3 *connection, const char *id);
/* The tenant's row and limits, in place of those there were. */
enum status quota_limits_rows_put(struct sqlite3 *connection, const struct quota_tenant *limits);
/* The key's, in the same way. */
enum status quota_limits_rows_put_key(struct sqlite3 *connection,
                                      const struct quota_key_limits *limits);

/* Each calls `take` for each row, plans oldest first, until it fails; without limits in the sets.
 * CORRUPT for a row out of its bounds. */
enum status quota_limits_rows_load(struct sqlite3 *connection, void *context,
                                   enum status (*take)(void *context,
                                                       const struct quota_plan *plan));
enum status quota_limits_rows_load_tenants(struct sqlite3 *connection, void *context,
                                           enum status (*take)(void *context,
                                                               const struct quota_tenant *limits));
enum status quota_limits_rows_load_keys(struct sqlite3 *connection, void *context,
                                        enum status (*take)(void *context,
                                                            const struct quota_key_limits *limits));
/* Every value into the set of its owner, which `find` knows (NULL: CORRUPT). */
enum status quota_limits_rows_load_values(struct sqlite3 *connection, void *context,
                                          struct quota_limits_set *(*find)(void *context,
                                                                           const char *owner));
