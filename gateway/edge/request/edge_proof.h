/* edge_proof: checks tokens on a thread of its own before their requests are handled.
 *
 *   request ─► unknown token? ─ no ─► handler
 *                 └ yes ─► queue ─► thread: auth_check ─► handler, which finds the token known
 *                            │                 └ its key is being fetched: parked, then again
 *                            ├ the queue is full: 503
 *                            └ too many bad tokens from this address: 429
 *
 * Owns:     the thread, and copies of the tokens that wait (at most LIMIT_TOKEN_CHECKS in the queue
 *           and LIMIT_TOKENS_PARKED parked).
 * Thread:   the loop's.
 * Cost:     almost nothing for an API key; one HMAC over a token that is known.
 * Not here: whether a token is valid (auth), what a request may do (edge_forward).
 *
 * Only bad tokens count against an address, because many customers may share one address.
 */
#pragma once

#include "gateway/edge/state/edge_state.h"
#include "gateway/http/request.h"

/* Makes the check for one listener. `handler` is called with `context` for each request, at once or
 * after the token was checked. `is_admin`: it is the admin listener. NO_MEMORY. */
enum status edge_proof_create(struct edge_proof **out, struct edge *edge, bool is_admin,
                              void (*handler)(struct http_request *request, void *context),
                              void *context);
/* Call it after the listeners are closed, when no request is left. NULL is allowed. */
void edge_proof_destroy(struct edge_proof *proof);

/* A listener's handler; `context` is the proof. */
void edge_proof_handle(struct http_request *request, void *context);

/* A listener's claim: tells whose a request is before its body has come. An unknown token is given
 * to the thread at once, so that it is usually known when the body is complete. `context` is the
 * proof. */
enum listener_claim edge_proof_claim(void *context, const struct listener_head *head,
                                     uint8_t owner[LISTENER_OWNER_BYTES]);

/* A fetch of keys has ended, good or failed: checks the parked tokens again. */
void edge_proof_keys_came(struct edge_proof *proof);
