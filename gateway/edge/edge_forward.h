/* edge_forward: the public routes: finds the route, authenticates the caller, and starts a job.
 *
 * Owns:     the public routes (routes.def).
 * Thread:   the loop's thread.
 * Cost:     one look-up of the key and one pass over the body before the engine is asked.
 * Not here: what happens at the engine (edge_job), the config API (admin).
 */
#pragma once

#include "gateway/edge/state/edge_state.h"

/* The public listener's handler; `context` is the struct edge. */
void edge_forward_handle(struct http_request *request, void *context);
/* Frees requests whose bodies were still being checked, after the loop and both workers have ended.
 * */
void edge_forward_free_all(struct edge *edge);
