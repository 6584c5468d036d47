/* edge_lower: tells the engine that a request goes on in the lowest class.
 *
 * Owns:     the call, until it has ended.
 * Thread:   the loop's thread.
 * Cost:     one allocation and one small exchange.
 * Not here: who falls and why (edge_quota), what the engine does then (engine/step/step_lower).
 *
 * Nobody waits for the answer: an engine that is not told goes on as before, which costs others a
 * little and the client nothing. A call that was not taken is logged.
 */
#pragma once

#include "gateway/edge/state/edge_state.h"

void edge_lower_send(struct edge *edge, const char *request_id);
