/* edge_lower: tells the engine to go on with a request in the lowest class.
 *
 * Owns:     the call, until it has ended.
 * Thread:   the loop's thread.
 * Cost:     one allocation and one small exchange.
 * Not here: which requests are lowered (edge_quota), what the engine does then
 *           (engine/step/step_lower).
 *
 * Nobody waits for the answer. If the call fails, the engine goes on in the old class, which costs
 * other tenants a little and the client nothing; the failure is logged.
 */
#pragma once

#include "gateway/edge/state/edge_state.h"

/* Sends the call for the request of that id. */
void edge_lower_send(struct edge *edge, const char *request_id);
