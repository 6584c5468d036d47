/* admin_import: makes the configuration what a document says: all of it in one change, or nothing.
 *
 * Owns:     nothing.
 * Thread:   the worker's.
 * Cost:     reads all rows twice and makes each change as its own call would, in one transaction.
 * Not here: the document (admin_export), the changes and their rules (admin_tenants, …).
 *
 * Rows are known by their names; members that the document does not name stay as they are, and rows
 * too unless it says "prune": true.
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_import_post(struct admin_call *call);
