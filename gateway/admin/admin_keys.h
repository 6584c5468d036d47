/* admin_keys: /admin/v1/tenants/{id}/keys and /admin/v1/admin-keys. A key's value is shown only
 * once.
 *
 * Owns:     nothing; the value is wiped from the stack when it is in the answer.
 * Thread:   the worker's; admin_keys_get: any.
 * Cost:     a change is one committed transaction.
 * Not here: tenants (admin_tenants), what a key proves (auth).
 */
#pragma once

#include "gateway/admin/admin_call.h"

/* The keys of the tenant in the path, or of the admins when the path has no tenant. */
enum status admin_keys_create(struct admin_call *call);
enum status admin_keys_list(struct admin_call *call);
enum status admin_keys_get(struct admin_call *call);
enum status admin_keys_update(struct admin_call *call);
enum status admin_keys_rotate(struct admin_call *call);
enum status admin_keys_revoke(struct admin_call *call);
