/* face_request: reads the body of a chat, completion or generate request into engine requests with
 * checked types and bounds.
 *
 * Owns:     the parsed JSON and copies made from it; engine requests borrow from both.
 * Thread:   any (a worker parses, the loop submits).
 * Cost:     O(bytes of the body).
 * Not here: running the requests (face_job), tokenising a prompt (engine).
 *
 * Every field of the OpenAI schemas is honoured, refused by name, or a hint that a server may
 * ignore. A field that is null counts as absent.
 */
#pragma once

#include <jansson.h>

#include "engine/engine.h"

enum face_kind { FACE_CHAT, FACE_TEXT, FACE_GENERATE };

struct face_prompt {
    enum engine_prompt_kind kind;
    struct slice text;
    uint32_t *tokens;
    size_t token_count;
};

struct face_request {
    enum face_kind kind;
    json_t *root;
    void *blocks;   /* list of memory blocks, freed by deinit */
    uint32_t vocab; /* token ids are below it */
    bool is_stream;
    bool has_stream_options;
    bool want_token_ids;
    bool has_top_logprobs;
    uint32_t priority;           /* lowers the class by so many */
    uint32_t prompt_count;       /* 1 for a chat */
    struct face_prompt *prompts; /* in blocks */
    /* All fields but the prompt and those that face_trusted_apply() sets. The class is the one that
     * the body asks for; a header overrules it. */
    struct engine_request engine;
};

/* Parses a body. INVALID, OUT_OF_RANGE, UNSUPPORTED or MODEL_NOT_FOUND, with the field as param, or
 * NO_MEMORY; then nothing is left to free. Only /v1/generate may leave the model out. */
enum status face_request_parse(struct face_request *request, enum face_kind kind, struct slice body,
                               const char *model_name, uint32_t vocab);
void face_request_deinit(struct face_request *request);

/* Fills the engine request of one prompt; it borrows from `request`. */
void face_request_of_prompt(const struct face_request *request, uint32_t prompt,
                            struct engine_request *out);

/* Checks the model field of a body: MODEL_NOT_FOUND unless it is `model_name`, INVALID without
 * it. */
enum status face_request_check_model(const json_t *root, const char *model_name);
/* Reads the messages of a chat. The array and joined texts are put into `*blocks`, which the caller
 * frees with face_request_free_blocks(). */
enum status face_request_messages(const json_t *value, void **blocks,
                                  const struct engine_message **messages, size_t *count);
void face_request_free_blocks(void *blocks);
