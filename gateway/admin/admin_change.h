/* admin_change: what all changes through the config API share: dry runs, If-Match, idempotency
 * keys, entity tags (RFC 9110, section 13.1).
 *
 * Owns:     nothing.
 * Thread:   the loop's or the worker's, as the call's function; admin_change_replay the worker's.
 * Cost:     one look-up for a call with an idempotency key.
 * Not here: the changes (admin_tenants, admin_keys), the transaction (auth/tenants/tenant).
 */
#pragma once

#include "gateway/admin/admin_call.h"

/* Checks that Idempotency-Key, If-Match and If-None-Match are each sent at most once, and that the
 * key has 1 to LIMIT_IDEMPOTENCY_KEY_BYTES visible ASCII characters; else INVALID. */
enum status admin_change_check_headers(const struct http_request *request);

/* Whether this is a POST with an idempotency key and no dry run. admin.c keeps the answer of such a
 * call (`is_kept`) when its route runs on the worker. */
bool admin_change_wants_kept(const struct admin_call *call);

/* For a call that is kept: fills `kept`, and the answer when the same call was answered before.
 * NOT_FOUND when it was not; REUSED when another call had this idempotency key. */
enum status admin_change_replay(struct admin_call *call);

/* Fills what the request says about a change except its fields: actor, dry run, If-Match and, for a
 * call that is kept, the request that admin_change_replay() filled. INVALID, OUT_OF_RANGE or
 * UNSUPPORTED with param. */
enum status admin_change_begin(struct admin_call *call, struct tenant_change *out);

/* CHANGED when the change asks for another revision than this. For objects without a row. */
enum status admin_change_check_revision(const struct tenant_change *change, int64_t revision);

/* Ends the answer's object: appends "dry_run" for a dry run and the closing brace, sets the
 * ETag. */
enum status admin_change_end(struct admin_call *call, const struct tenant_change *change,
                             int64_t revision);

/* For a GET of one object: sets the ETag; true, with the answer 304, when the caller has this
 * revision (If-None-Match). */
bool admin_change_is_known(struct admin_call *call, int64_t revision);
