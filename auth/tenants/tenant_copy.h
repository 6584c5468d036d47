/* tenant_copy: many changes as one: a second directory over the same file, in one transaction.
 *
 * Owns:     the copy; the transaction and the directory's `change` from begin to end.
 * Thread:   one; readers of the directory see nothing until all of it is there at once.
 * Cost:     begin loads all rows again, the swap is O(keys used since the last flush).
 * Not here: issuers (issuer_records_adopt), who makes the changes (gateway/admin).
 *
 *   begin ─► changes of the copy, each a savepoint ─► swap: commit, memory ─► end
 *                                                 └─► end alone: nothing has happened
 */
#pragma once

#include "auth/tenants/tenant_directory.h"

/* `*out` is a directory as any other, for this thread alone. */
enum status tenant_copy_begin(struct tenants *tenants, struct tenants **out);
/* Commits what the copy's changes have written, and puts its records in place of the directory's.
 * When it fails nothing has happened. */
enum status tenant_copy_swap(struct tenants *tenants, struct tenants *copy);
/* Rolls back unless there was a swap; closes the copy. Always called behind a begin that was OK. */
void tenant_copy_end(struct tenants *tenants, struct tenants *copy);
