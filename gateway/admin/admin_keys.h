/* admin_keys: a tenant's API keys in the config API; a key's value is shown once.
 *
 * Owns:     nothing; the value is wiped from the stack when it has been answered.
 * Thread:   the loop's thread.
 * Cost:     a change is one committed transaction.
 * Not here: tenants (admin_tenants), what a key proves (auth).
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_keys_create(struct admin_call *call);
enum status admin_keys_list(struct admin_call *call);
enum status admin_keys_revoke(struct admin_call *call);
