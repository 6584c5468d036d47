/* face_text: /v1/tokenize and /v1/detokenize, worked on the worker's thread.
 *
 * Owns:     the copied body and the answer of one request.
 * Thread:   the loop's (the work on the worker's).
 * Cost:     O(body); the loop is not held up by a long text.
 * Not here: generation (face_job).
 */
#pragma once

#include "gateway/engine_http/face.h"

enum face_text_kind { FACE_TEXT_TOKENIZE, FACE_TEXT_DETOKENIZE };

/* Takes the request over. Shapes: {"model","prompt" | "messages","add_special_tokens",
 * "add_generation_prompt"} → {"tokens","count","max_model_len"};
 * {"model","tokens"} → {"prompt"}. */
void face_text_start(struct face *face, struct http_request *request, enum face_text_kind kind);
