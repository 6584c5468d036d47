/* tenant_copy: makes many changes at once, in a second directory over the same database and in one
 * transaction.
 *
 * Owns:     the copy. From begin to end it holds the transaction and the directory's `change`.
 * Thread:   one thread from begin to end. Readers of the directory see all changes at once, after
 *           the swap.
 * Cost:     begin loads all rows again. The swap is O(keys used since the last flush).
 * Not here: issuers (issuer_records_adopt), the changes themselves (gateway/admin).
 *
 *   begin ─► changes of the copy, each a savepoint ─► swap: commit, memory ─► end
 *                                                 └─► end alone: nothing has happened
 */
#pragma once

#include "auth/tenants/tenant_directory.h"

/* `*out` is a complete directory that only this thread may use. */
enum status tenant_copy_begin(struct tenants *tenants, struct tenants **out);
/* Commits what the copy's changes have written, and exchanges the records of the copy and of the
 * directory. When it fails, nothing has changed. */
enum status tenant_copy_swap(struct tenants *tenants, struct tenants *copy);
/* Rolls back unless there was a swap, and closes the copy. Call it after every begin that returned
 * OK. */
void tenant_copy_end(struct tenants *tenants, struct tenants *copy);
