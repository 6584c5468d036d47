/* admin_keys: API keys in the config API, tenants' and admins'; a key's value is shown once.
 *
 * Owns:     nothing; the value is wiped from the stack when it stands in the answer.
 * Thread:   the worker's; admin_keys_get: any.
 * Cost:     a change is one committed transaction.
 * Not here: tenants (admin_tenants), what a key proves (auth).
 */
#pragma once

#include "gateway/admin/admin_call.h"

/* Of the tenant in the path; of the admins where the path has no tenant. */
enum status admin_keys_create(struct admin_call *call);
enum status admin_keys_list(struct admin_call *call);
enum status admin_keys_get(struct admin_call *call);
enum status admin_keys_update(struct admin_call *call);
enum status admin_keys_rotate(struct admin_call *call);
enum status admin_keys_revoke(struct admin_call *call);
