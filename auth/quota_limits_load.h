/* quota_limits_load: plans and limits at the start and the end of the directory.
 *
 * Owns:     nothing by itself.
 * Thread:   tenants_open's and tenants_close's: nobody else has the directory.
 * Cost:     all rows of the tables plans, tenant_limits and limit_values.
 * Not here: changes and looking (quota_limits).
 */
#pragma once

#include "config/base/status.h"

struct sqlite3;
struct tenants;

/* Behind the tenants. CORRUPT or LIMIT for rows out of their bounds. */
enum status quota_limits_load(struct tenants *tenants, struct sqlite3 *connection);
void quota_limits_free_all(struct tenants *tenants);
