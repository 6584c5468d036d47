/* admin_groups: groups of tenants in the config API.
 *
 * Owns:     nothing.
 * Thread:   the worker's.
 * Cost:     a change is one committed transaction; a list counts the tenants of each group.
 * Not here: records and rules (auth/tenants/tenant_group), who is in a group (admin_tenants).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_groups_create(struct admin_call *call);
enum status admin_groups_list(struct admin_call *call);
/* {id} is an id or a name. */
enum status admin_groups_get(struct admin_call *call);
enum status admin_groups_update(struct admin_call *call);
enum status admin_groups_delete(struct admin_call *call);
