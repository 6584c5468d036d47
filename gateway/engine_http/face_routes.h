/* face_routes: what the engine's face answers, by path.
 *
 * Owns:     the table of routes (routes.def).
 * Thread:   the loop's.
 * Cost:     each of the small answers is made in one buffer.
 * Not here: generation (face_job), tokenising (face_text).
 *
 * /internal/v1/finals?after=N lists final records that were not acknowledged, for an edge that has
 * come back; /internal/v1/ack {"record_seq":N} says that all up to N are in the ledger.
 */
#pragma once

#include "gateway/engine_http/face.h"

/* The handler of every request; `context` is the face. */
void face_routes_handle(struct http_request *request, void *context);
