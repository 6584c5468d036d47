/* price_rows: the SQL of prices; rows in, rows out.
 *
 * Owns:     nothing; works on the connection of a transaction that the caller has begun.
 * Thread:   the holder of the store's lock.
 * Cost:     one SQL statement for each row that is written, and one for loading all rows.
 * Not here: records in memory and rules (price).
 */
#pragma once

#include "auth/tenants/price_types.h"
#include "auth/tenants/tenant_rows.h"

/* EXISTS when there is a price of the same plan, model, class and time. */
enum status price_rows_insert(struct sqlite3 *connection, const struct price *price);
enum status price_rows_delete(struct sqlite3 *connection, const char *id);
/* Calls `take` for each row, oldest first, until it fails. CORRUPT for a row out of its bounds. */
enum status price_rows_load(struct sqlite3 *connection, void *context,
                            enum status (*take)(void *context, const struct price *price));
