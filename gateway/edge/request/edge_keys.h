/* edge_keys: fetches issuers' key sets from their URLs, on a thread of its own.
 *
 *   timer, or a token whose key is unknown ─► issuer_fetch_next ─► thread: key_fetch,
 *   issuer_fetch_done ─► loop: waiting tokens are checked again (edge_proof); next issuer
 *
 * Owns:     the thread; one fetch at a time.
 * Thread:   the loop's.
 * Cost:     a look at the issuers once a second.
 * Not here: which issuer is due and what is done with its keys (auth/tenants/issuer_fetch), HTTP
 *           (upstream/key_fetch).
 */
#pragma once

#include "gateway/edge/state/edge_state.h"

/* Starts the thread. `came(context)` runs on the loop after each fetch, good or failed, so that the
 * caller can check waiting tokens again. NO_MEMORY. */
enum status edge_keys_create(struct edge_keys **out, struct edge *edge, void (*came)(void *context),
                             void *context);
/* Gives up a fetch under way and ends the thread. Call it before the proofs are destroyed. NULL is
 * allowed. */
void edge_keys_destroy(struct edge_keys *keys);

/* A token waits for keys: starts a fetch now, if an issuer is due and no fetch is under way. */
void edge_keys_wake(struct edge_keys *keys);
