/* admin_import: makes the configuration what a document says, in one transaction: all of it or
 * nothing.
 *
 * Owns:     nothing.
 * Thread:   the worker's.
 * Cost:     copies the directory, reads all rows, and makes each change as a call of its own would.
 * Not here: the document (admin_export), the changes and their rules (admin_tenants, …).
 *
 * Rows are identified by name. Members that the document does not have stay as they are. Rows that
 * it does not have stay too, unless it says "prune": true.
 */
#pragma once

#include "gateway/admin/admin_call.h"

enum status admin_import_post(struct admin_call *call);
