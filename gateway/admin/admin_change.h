/* admin_change: what all changes over the config API share: dry runs, If-Match, idempotency keys,
 * entity tags.
 *
 * Owns:     nothing.
 * Thread:   the worker's, but for admin_change_check_headers.
 * Cost:     a look-up for a call with an idempotency key.
 * Not here: the changes (admin_tenants, admin_keys), the transaction (auth/tenants/tenant).
 */
#pragma once

#include "gateway/admin/admin_call.h"

/* Idempotency-Key: 1 to LIMIT_IDEMPOTENCY_KEY_BYTES visible ASCII characters; If-Match,
 * If-None-Match: any. Each once or not at all; else INVALID. */
enum status admin_change_check_headers(const struct http_request *request);

/* Whether this is a POST that has an idempotency key and is no dry run. Such a call is kept
 * (`is_kept`) when its route makes something; admin.c decides that, once. */
bool admin_change_wants_kept(const struct admin_call *call);

/* Of a call that is kept: fills its `kept`, then its answer when an earlier, equal call was given
 * one. NOT_FOUND: none; REUSED. */
enum status admin_change_replay(struct admin_call *call);

/* Everything of a change that its request says beside the fields. `out` has a request only when the
 * call is kept: the one that admin_change_replay filled. INVALID with param. */
enum status admin_change_begin(struct admin_call *call, struct tenant_change *out);

/* CHANGED when the change wants another revision than this, for what has no row of its own. */
enum status admin_change_check_revision(const struct tenant_change *change, int64_t revision);

/* The end of the answer's object: "dry_run" when it is one, the brace; its etag. */
enum status admin_change_end(struct admin_call *call, const struct tenant_change *change,
                             int64_t revision);

/* For GET of one object: its etag, and the answer 304 (true) when the caller has this revision. */
bool admin_change_is_known(struct admin_call *call, int64_t revision);
