/* admin: the config API: the handler of the admin listener.
 *
 * Owns:     the admin routes (routes.def), the check of their scopes, the calls.
 * Thread:   the loop's. Calls that may wait for the disk run on a worker's thread and are answered
 *           later, so that no tenant's request waits for an admin's commit.
 * Cost:     a JSON body of up to LIMIT_ADMIN_BODY_BYTES (LIMIT_ADMIN_IMPORT_BYTES for an import),
 *           copied once.
 * Not here: tenants and keys (auth), the tenants' own API (edge_forward).
 */
#pragma once

#include "gateway/admin/admin_call.h"

/* Starts the worker. The caller has filled the first block of `admin`. NO_MEMORY. */
enum status admin_open(struct admin *admin, struct loop *loop);
/* Stops the worker. Calls that wait still run, but are not answered. Call it when the admin
 * listener is closed and the loop has stopped, before auth_close(). */
void admin_close(struct admin *admin);

/* The handler of the admin listener; `context` is the struct admin. */
void admin_handle(struct http_request *request, void *context);
