/* edge_keys: issuers' key sets are fetched from their URLs, on a thread of their own.
 *
 *   timer, or a token whose key is not there ─► issuer_fetch_next ─► thread: key_fetch,
 *   issuer_fetch_done ─► loop: tokens that waited are checked again (edge_proof), next one
 *
 * Owns:     the thread; one fetch at a time.
 * Thread:   the loop's.
 * Cost:     a look at the issuers a second.
 * Not here: which issuer is due, what came (auth/tenants/issuer_fetch), HTTP (upstream/key_fetch).
 */
#pragma once

#include "gateway/edge/state/edge_state.h"

/* `came(context)` runs when keys have been fetched, or could not be: what waits for them is checked
 * again. */
enum status edge_keys_create(struct edge_keys **out, struct edge *edge, void (*came)(void *context),
                             void *context);
/* A fetch under way is given up. Before the proofs are destroyed. NULL is fine. */
void edge_keys_destroy(struct edge_keys *keys);

/* Somebody waits for keys: they are fetched now, if auth wants it. */
void edge_keys_wake(struct edge_keys *keys);
