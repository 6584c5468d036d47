/* face_text: /v1/tokenize and /v1/detokenize.
 *
 * Owns:     the body and the answer of each request.
 * Thread:   the loop's; a worker of loop_turns does the work.
 * Cost:     O(bytes of the body); a long text does not delay the loop.
 * Not here: generation (face_job).
 */
#pragma once

#include "gateway/engine_http/face.h"

enum face_text_kind { FACE_TEXT_TOKENIZE, FACE_TEXT_DETOKENIZE };

/* Handles a request: it is answered here, now or later.
 *   tokenize    {"model","prompt" | "messages","add_special_tokens","add_generation_prompt"}
 *               → {"tokens","count","max_model_len"}
 *   detokenize  {"model","tokens","skip_special_tokens"} → {"prompt"} */
void face_text_start(struct face *face, struct http_request *request, enum face_text_kind kind);
