/* admin: the config API's face: one handler for the admin listener.
 *
 * Owns:     the admin routes (routes.def) and the check of each one's scope.
 * Thread:   the loop's thread; a change waits for its commit (0.1 to 1 ms).
 * Cost:     JSON bodies up to LIMIT_ADMIN_BODY_BYTES.
 * Not here: what tenants and keys are (auth/tenant), the tenants' own face (edge_forward).
 */
#pragma once

#include "gateway/admin/admin_call.h"

/* The admin listener's handler; `context` is the struct admin. */
void admin_handle(struct http_request *request, void *context);
