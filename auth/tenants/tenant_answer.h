/* tenant_answer: keeps the answers of calls with an idempotency key for LIMIT_IDEMPOTENCY_S.
 *
 *   answers   actor's key id, idempotency key → print of the call, code, revision, sealed body
 *
 * A body may contain a new key's value, so it is stored sealed (AES-256-GCM). The sealing key is
 * derived from the pepper, and the seal is bound to the other columns of the row.
 *
 * Owns:     the table answers.
 * Thread:   tenant_answer_keep: the holder of the store's lock; the others any.
 * Cost:     one row and one sealing for each call; a new row also deletes old ones.
 * Not here: which parts of a call are compared (gateway/admin).
 */
#pragma once

#include "auth/tenants/tenant_types.h"

struct sqlite3;

/* A keyed hash of a call, by which a repeated call is recognised: of method, path, `who` and body.
 * `who` tells apart the callers that share an actor_key_id, such as the persons of one issuer; it
 * has no line ends, and is "" when there is one caller. */
enum status tenants_answer_print(struct tenants *tenants, struct slice method, struct slice path,
                                 struct slice who, struct slice body, uint8_t out[32]);
struct tenant_answer {
    /* the caller initialises it, and overwrites it: it may hold a key's value */
    struct buffer body;
    int code;
    int64_t revision;
};
/* Finds the kept answer of a repeated call. NOT_FOUND: the call is new. REUSED: another call had
 * this idempotency key. */
enum status tenants_answer_find(struct tenants *tenants, const struct tenant_request *request,
                                struct tenant_answer *out);

/* Stores the answer of a change that has a request, in the change's transaction. Replaces an answer
 * that is too old. */
enum status tenant_answer_keep(struct tenants *tenants, struct sqlite3 *connection,
                               const struct tenant_change *change, struct slice body);

/* Deletes answers that are older than LIMIT_IDEMPOTENCY_S, or that lie as far in the future because
 * the clock was set back. OK when there are none. */
enum status tenant_answer_drop_old(struct tenants *tenants, struct sqlite3 *connection);
