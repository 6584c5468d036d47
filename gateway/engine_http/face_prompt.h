/* face_prompt: computes and pins the prompts that the edge publishes; lists and unpublishes them.
 *
 * Owns:     the table of published prompts, and the jobs that publish. A job outlives its HTTP
 *           request: it lives until the engine has ended it.
 * Thread:   the loop's; a worker of loop_turns tokenises.
 * Cost:     publishing computes the prompt once; a row has 24 bytes.
 * Not here: which tenants may use a prompt (edge), pages and pins (prefix_cache).
 *
 *   POST   {"domain","messages" | "text","dry_run"} ─ worker: tokens ─► fleet_submit ─► END ─► row
 *   DELETE …/{domain} ─► fleet_unpublish
 *
 * A chat is rendered without the generation prompt, so that a tenant's chat that begins with the
 * same messages begins with the same tokens.
 */
#pragma once

#include "gateway/engine_http/face.h"

/* Answers {"tokens","pages"} when everything is pinned, at once for a domain that is published
 * already. Refuses with CONTEXT_LENGTH a prompt that is too long, with CONFLICT when the cap on
 * pinned pages is reached, with BUSY while the same domain is being published. If the client
 * leaves, nothing is published. */
void face_prompt_publish(struct http_request *request, struct face *face);
/* Unpublishes a domain. An unknown domain is answered in the same way, so the call can be
 * repeated. */
void face_prompt_unpublish(struct http_request *request, struct face *face);
void face_prompt_list(struct http_request *request, struct face *face);
/* Asks the engine to end every publishing job. */
void face_prompt_cancel_all(struct face *face);
