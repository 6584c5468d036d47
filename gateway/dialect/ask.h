/* ask: what a request asks for, read from its body in one of the dialects, with checked types and
 * bounds.
 *
 * Owns:     the parsed JSON and copies made from it; engine requests borrow from both.
 * Thread:   any (a worker parses, the loop submits).
 * Cost:     O(bytes of the body).
 * Not here: running the requests (face_job), tokenising a prompt (engine).
 *
 * Each field is honoured, refused by name, or a hint that has no effect (ask_fields.def). A field
 * that is null counts as absent.
 */
#pragma once

#include <jansson.h>

#include "gateway/dialect/ask_types.h"

/* Parses a body. INVALID, OUT_OF_RANGE, UNSUPPORTED or MODEL_NOT_FOUND, with the field as param, or
 * NO_MEMORY; then nothing is left to free. Only /v1/generate may leave the model out. */
enum status ask_parse(struct ask *ask, enum ask_dialect dialect, struct slice body,
                      const struct ask_model *model);
void ask_deinit(struct ask *ask);

/* Fills the engine request of one prompt; it borrows from `ask`. */
void ask_of_prompt(const struct ask *ask, uint32_t prompt, struct engine_request *out);

/* Checks the model field of a body: MODEL_NOT_FOUND when it is empty or another one than
 * `model_name`, of which NULL is any, INVALID without it. */
enum status ask_check_model(const json_t *root, const char *model_name);
