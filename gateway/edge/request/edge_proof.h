/* edge_proof: tokens are checked on a thread of their own before their requests are handled.
 *
 *   request ─► token that nobody knows? ─ no ─► handler
 *                 └ yes ─► queue ─► thread: auth_check ─► handler, which finds it known
 *                            │                 └ its key is being fetched: parked, then again
 *                            └ full, or the address failed too often: 503, 429
 *
 * Owns:     the thread, and copies of the tokens that wait (at most LIMIT_TOKEN_CHECKS in the queue
 *           and LIMIT_TOKENS_PARKED beside it).
 * Thread:   the loop's.
 * Cost:     nothing for an API key; for a token that is known one HMAC over it.
 * Not here: what a token proves (auth), what a request may do (edge_forward).
 *
 * Only tokens that fail count against an address: behind one address may be many customers.
 */
#pragma once

#include "gateway/edge/state/edge_state.h"
#include "gateway/http/request.h"

/* `handler` is called with `context`, at once or when the credential is known. `is_admin`: the
 * listener is the admins'. */
enum status edge_proof_create(struct edge_proof **out, struct edge *edge, bool is_admin,
                              void (*handler)(struct http_request *request, void *context),
                              void *context);
/* Behind the listeners: no request is there any more. NULL is fine. */
void edge_proof_destroy(struct edge_proof *proof);

/* A listener's handler; `context` is the proof. */
void edge_proof_handle(struct http_request *request, void *context);

/* A listener's claim: whose a request is, before its body is there. A token that nobody knows is
 * given to the thread, so that it is known by when the body has come. `context` is the proof. */
enum listener_claim edge_proof_claim(void *context, const struct listener_head *head,
                                     uint8_t owner[LISTENER_OWNER_BYTES]);

/* Keys have been fetched, or could not be: what is parked is checked again. */
void edge_proof_keys_came(struct edge_proof *proof);
