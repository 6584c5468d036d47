/* face_job: one chat or completion request, from its body to its final record.
 *
 * Owns:     the copied body, the parsed request, what waits for the next frame. A job outlives its
 *           HTTP request: it lives until the engine has said the last word on every prompt.
 * Thread:   the loop's (parsing on the worker's).
 * Cost:     one frame a token; bytes are copied once into the stream.
 * Not here: what a frame looks like (face_frame).
 *
 *   body ─ worker: parse ─► submit each prompt ─► START… TOKEN… CHOICE_END… END ─► final record
 *   the client half-closes or leaves ─► engine_cancel ─► END all the same
 */
#pragma once

#include "gateway/engine_http/face.h"
#include "gateway/engine_http/face_request.h"

/* Takes the request over. */
void face_job_start(struct face *face, struct http_request *request, enum face_kind kind);
/* Asks the engine to end every job. */
void face_job_cancel_all(struct face *face);
/* False when no job has that request id. */
bool face_job_cancel(struct face *face, struct slice request_id);
/* It goes on in the lowest class. */
bool face_job_lower(struct face *face, struct slice request_id);
/* [{"request_id","state","class","choices","prompt_tokens","computed_tokens","cached_tokens",
 * "tokens","age_us","explain"}…]; the states are preparing, those of the engine, and ending;
 * "explain" (why it waits, or null) is of the prompt that has come furthest. */
void face_job_render_all(const struct face *face, struct buffer *out);
