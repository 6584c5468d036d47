/* face_job: one chat, completion or generate request, from its body to its final record.
 *
 * Owns:     the body, the parsed request, the parts of the next frame. A job outlives its HTTP
 *           request: it lives until the engine has ended every prompt.
 * Thread:   the loop's; a worker of loop_turns parses the body.
 * Cost:     one frame for a token; its bytes are copied once into the stream.
 * Not here: the JSON of a frame (face_frame).
 *
 *   body ─ worker: parse ─► submit each prompt ─► START… TOKEN… CHOICE_END… END ─► final record
 *   the client half-closes or leaves ─► cancel ─► END, and a final record all the same
 */
#pragma once

#include "gateway/dialect/ask.h"
#include "gateway/engine_http/face.h"

/* Handles a request: it is answered here, now or later. */
void face_job_start(struct face *face, struct http_request *request, enum ask_dialect dialect);
/* Asks the engine to end every job. */
void face_job_cancel_all(struct face *face);
/* Asks the engine to end a job; false when no job has this request id. */
bool face_job_cancel(struct face *face, struct slice request_id);
/* Moves a job to the lowest class. False when no job has this request id, or when it is not parsed
 * yet. */
bool face_job_lower(struct face *face, struct slice request_id);
/* Appends [{"request_id","state","class","choices","prompt_tokens","computed_tokens",
 * "cached_tokens","tokens","age_us","explain"}…]. The states are "preparing", those of the engine,
 * and "ending". "explain" says why a request waits, or is null. State and "explain" are those of
 * the prompt that is furthest. */
void face_job_render_all(const struct face *face, struct buffer *out);
