/* admin: the config API's face: one handler for the admin listener.
 *
 * Owns:     the admin routes (routes.def), the check of each one's scope, calls on their way.
 * Thread:   the loop's; what may wait for the disk runs on the worker's thread and is answered when
 *           it is done, so that no tenant's request waits for an admin's commit.
 * Cost:     JSON bodies up to LIMIT_ADMIN_BODY_BYTES, copied once.
 * Not here: what tenants and keys are (auth/tenants/tenant), the tenants' own face (edge_forward).
 */
#pragma once

#include "gateway/admin/admin_call.h"

/* Starts the worker; everything else of `admin` is filled. */
enum status admin_open(struct admin *admin, struct loop *loop);
/* When the admin listener is closed and nothing turns the loop any more; before auth_close. Calls
 * that wait are worked off; there is nobody to answer. */
void admin_close(struct admin *admin);

/* The admin listener's handler; `context` is the struct admin. */
void admin_handle(struct http_request *request, void *context);
