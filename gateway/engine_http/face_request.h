/* face_request: the body of a chat, completion or generate request → typed, bounded engine
 * requests.
 *
 * Owns:     the parsed JSON and what had to be copied out of it; engine requests borrow from both.
 * Thread:   any (a worker parses, the loop submits).
 * Cost:     O(body).
 * Not here: running them (face_job), tokens of a prompt (engine).
 *
 * Every field of the OpenAI schemas is honoured, refused by name, or one of the few hints that the
 * schema lets a server ignore. A field that is null counts as absent.
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
    void *blocks;   /* list of memory freed at the end */
    uint32_t vocab; /* bounds token ids */
    bool is_stream;
    bool has_stream_options;
    bool want_token_ids;
    bool has_top_logprobs;
    uint32_t priority;            /* so many classes lower */
    uint32_t prompt_count;        /* 1 for chat */
    struct face_prompt *prompts;  /* in blocks */
    struct engine_request engine; /* all but the prompt and what headers say;
                                   * the class is what the body asks for, which they overrule */
};

/* INVALID, OUT_OF_RANGE, UNSUPPORTED or MODEL_NOT_FOUND with the field as param. /v1/generate
 * needs no model. On failure
 * nothing is left to free. `vocab` bounds token ids. */
enum status face_request_parse(struct face_request *request, enum face_kind kind, struct slice body,
                               const char *model_name, uint32_t vocab);
void face_request_deinit(struct face_request *request);

/* The engine request of one prompt; borrows from `request`. */
void face_request_of_prompt(const struct face_request *request, uint32_t prompt,
                            struct engine_request *out);

/* The model field of any body: MODEL_NOT_FOUND unless it is `model_name`. */
enum status face_request_check_model(const json_t *root, const char *model_name);
/* The messages of a chat (also for /v1/tokenize); the array and joined texts go to *blocks. */
enum status face_request_messages(const json_t *value, void **blocks,
                                  const struct engine_message **messages, size_t *count);
void face_request_free_blocks(void *blocks);
