/* edge_forward: the tenants' face: who is calling, may it go on, then a job.
 *
 * Owns:     the public routes (routes.def).
 * Thread:   the loop's thread.
 * Cost:     one look-up of the key and one parse of the body before the engine is asked.
 * Not here: what happens at the engine (edge_job), the config API (admin).
 */
#pragma once

#include "gateway/edge/state/edge_state.h"

/* The public listener's handler; `context` is the struct edge. */
void edge_forward_handle(struct http_request *request, void *context);
/* Frees what is left of requests whose bodies were being checked, when loop and scanner have ended.
 */
void edge_forward_free_all(struct edge *edge);
