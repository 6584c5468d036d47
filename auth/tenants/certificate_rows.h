/* certificate_rows: the SQL of certificates; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     one SQL statement for each row that is written, and one for loading all rows.
 * Not here: rules (certificate_edit).
 */
#pragma once

#include "auth/tenants/certificate_types.h"
#include "auth/tenants/tenant_rows.h"

enum status certificate_rows_insert(struct sqlite3 *connection, const struct certificate *row);
/* Writes what may change in the row with this id, except its last use
 * (certificate_rows_update_used). */
enum status certificate_rows_update(struct sqlite3 *connection, const struct certificate *row);
enum status certificate_rows_update_used(struct sqlite3 *connection, const char *id,
                                         int64_t last_used_at_s);
/* Calls `take` for each row, oldest first, until `take` fails. CORRUPT for a row out of its
 * bounds. */
enum status certificate_rows_load(struct sqlite3 *connection, void *context,
                                  enum status (*take)(void *context,
                                                      const struct certificate *row));
