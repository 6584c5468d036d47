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
 * Not here: what makes two calls the same (gateway/admin).
 */
#pragma once

#include "auth/tenants/tenant_types.h"

struct sqlite3;

/* What makes two calls the same: a keyed print of method, path, who asks (of those that one
 * actor_key_id stands for; without line ends, "" = it is one) and body. */
enum status tenants_answer_print(struct tenants *tenants, struct slice method, struct slice path,
                                 struct slice who, struct slice body, uint8_t out[32]);
struct tenant_answer {
    struct buffer body; /* initialised by the caller; wipe it: it may hold a key's value */
    int code;
    int64_t revision;
};
/* NOT_FOUND: the call is new. REUSED: the name stands for another call. */
enum status tenants_answer_find(struct tenants *tenants, const struct tenant_request *request,
                                struct tenant_answer *out);

/* In the transaction of the change, which has a request. Takes the place of one that is too old. */
enum status tenant_answer_keep(struct tenants *tenants, struct sqlite3 *connection,
                               const struct tenant_change *change, struct slice body);

/* Drops what is older than LIMIT_IDEMPOTENCY_S, or as far in the future (the clock was stepped
 * back). OK when there is nothing. */
enum status tenant_answer_drop_old(struct tenants *tenants, struct sqlite3 *connection);
