/* price_load: prices at the start and the end of the directory.
 *
 * Owns:     nothing by itself.
 * Thread:   the thread of tenants_open or tenants_close, which alone has the directory.
 * Cost:     reads all rows of the table prices.
 * Not here: finding and changing prices (price).
 */
#pragma once

#include "config/base/status.h"

struct sqlite3;
struct tenants;

/* CORRUPT or LIMIT for rows out of their bounds. */
enum status price_load(struct tenants *tenants, struct sqlite3 *connection);
void price_free_all(struct tenants *tenants);
