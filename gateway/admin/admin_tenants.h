/* admin_tenants: /admin/v1/tenants.
 *
 * Owns:     nothing.
 * Thread:   the worker's; admin_tenants_get: any.
 * Cost:     a change is one committed transaction.
 * Not here: keys (admin_keys), the rows themselves (auth/tenants/tenant).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_tenants_create(struct admin_call *call);
/* `over` of every call that changes tenants: on the loop, ends the requests of tenants that are not
 * active any more. */
void admin_tenants_over(struct admin_call *call);
enum status admin_tenants_list(struct admin_call *call);
enum status admin_tenants_get(struct admin_call *call);
enum status admin_tenants_update(struct admin_call *call);
enum status admin_tenants_archive(struct admin_call *call);
