/* tenant_answer: answers of calls with an idempotency key, kept for a day.
 *
 *   answers   actor's key id, idempotency key → print of the call, code, revision, sealed body
 *
 * A body may hold a new key's value, so it lies in the file sealed (AES-256-GCM) under a key that
 * is derived from the pepper, bound to its place by the row's other members.
 *
 * Owns:     the table answers.
 * Thread:   tenant_answer_keep: the holder of the store's lock; the rest any.
 * Cost:     a row and a sealing a call; old rows go with each new one.
 * Not here: what makes two calls the same (gateway/admin), tenants_answer_find's contract (tenant).
 */
#pragma once

#include "auth/tenants/tenant_directory.h"

/* In the transaction of the change, which has a request. Takes the place of one that is too old. */
enum status tenant_answer_keep(struct tenants *tenants, struct sqlite3 *connection,
                               const struct tenant_change *change, struct slice body);

/* Drops what is older than LIMIT_IDEMPOTENCY_S, or as far in the future (the clock was stepped
 * back). OK when there is nothing. */
enum status tenant_answer_drop_old(struct tenants *tenants, struct sqlite3 *connection);
