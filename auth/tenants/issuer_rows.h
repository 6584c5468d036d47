/* issuer_rows: the SQL of issuers; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     one SQL statement for each row that is written, and one for loading all rows.
 * Not here: keys and rules (issuer).
 */
#pragma once

#include "auth/tenants/issuer_types.h"
#include "auth/tenants/tenant_rows.h"

/* `sealed` is the sealed key set, or empty. EXISTS when another issuer has the name or the iss. */
enum status issuer_rows_insert(struct sqlite3 *connection, const struct issuer *issuer,
                               struct slice sealed);
enum status issuer_rows_update(struct sqlite3 *connection, const struct issuer *issuer,
                               struct slice sealed);
enum status issuer_rows_delete(struct sqlite3 *connection, const char *id);
/* Calls `take` for each issuer, oldest first, until `take` fails. CORRUPT for a row out of its
 * bounds. */
enum status issuer_rows_load(struct sqlite3 *connection, void *context,
                             enum status (*take)(void *context, const struct issuer *issuer,
                                                 struct slice sealed));

/* --- the lists of an issuer, as JSON --- */

/* Stores fetched keys. The revision stays, because no rule has changed. */
enum status issuer_rows_update_keys(struct sqlite3 *connection, const char *id,
                                    struct slice sealed);

/* OUT_OF_RANGE or INVALID with param. */
enum status issuer_rows_read_audiences(struct slice json, struct issuer *out);
enum status issuer_rows_read_tenants(struct slice json, struct issuer *out);
enum status issuer_rows_read_admins(struct slice json, struct issuer *out);
void issuer_rows_write_audiences(const struct issuer *issuer, struct buffer *out);
void issuer_rows_write_tenants(const struct issuer *issuer, struct buffer *out);
void issuer_rows_write_admins(const struct issuer *issuer, struct buffer *out);
