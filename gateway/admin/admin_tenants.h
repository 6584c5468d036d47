/* admin_tenants: tenants in the config API.
 *
 * Owns:     nothing.
 * Thread:   the worker's; admin_tenants_get: any.
 * Cost:     a change is one committed transaction.
 * Not here: keys (admin_keys), the rows themselves (auth/tenants/tenant).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_tenants_create(struct admin_call *call);
/* Behind any change of tenants, on the loop: requests of those that are not active any more end. */
void admin_tenants_over(struct admin_call *call);
enum status admin_tenants_list(struct admin_call *call);
enum status admin_tenants_get(struct admin_call *call);
enum status admin_tenants_update(struct admin_call *call);
enum status admin_tenants_archive(struct admin_call *call);
