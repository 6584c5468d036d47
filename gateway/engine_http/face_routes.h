/* face_routes: finds the handler of a request by its path, and answers the small requests itself.
 *
 * Owns:     the table of routes (routes.def).
 * Thread:   the loop's.
 * Cost:     one buffer for each small answer.
 * Not here: generation (face_job), tokenising (face_text), published prompts (face_prompt).
 *
 * GET /internal/v1/finals?after=N&limit=M lists final records that are not acknowledged, for an
 * edge that was restarted. POST /internal/v1/ack {"record_seq":N} says that all records up to N are
 * in the ledger.
 */
#pragma once

#include "gateway/engine_http/face.h"

/* The handler of every request; `context` is the face. */
void face_routes_handle(struct http_request *request, void *context);
