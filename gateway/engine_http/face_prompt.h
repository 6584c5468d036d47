/* face_prompt: prompts that the edge has published: computed, pinned, listed, unpublished.
 *
 * Owns:     the table of what is published here, publishings under way. A publishing outlives its
 *           HTTP request: it lives until the engine has said the last word on it.
 * Thread:   the loop's (tokens are made on the text lane's worker).
 * Cost:     publishing computes the prompt once; a row is 24 bytes.
 * Not here: who may use them (the edge), pages and pins (engine/kv/prefix_cache).
 *
 *   POST   {"domain","messages" | "text","dry_run"} ─ worker: tokens ─► engine_submit ─► END ─► row
 *   DELETE …/{domain} ─► engine_unpublish
 *
 * A chat is rendered without what asks for an answer, so that a tenant's chat that begins with the
 * same messages begins with the same tokens.
 */
#pragma once

#include "gateway/engine_http/face.h"

/* Answered with {"tokens","pages"} once everything is pinned; a domain that is published already is
 * answered at once. CONTEXT_LENGTH; CONFLICT over the cap on pins; BUSY while the same domain is on
 * its way. A client that leaves takes the publishing back. */
void face_prompt_publish(struct http_request *request, struct face *face);
/* Also of a domain that nobody knows: twice is the same as once. */
void face_prompt_unpublish(struct http_request *request, struct face *face);
void face_prompt_list(struct http_request *request, struct face *face);
/* Asks the engine to end every publishing. */
void face_prompt_cancel_all(struct face *face);
