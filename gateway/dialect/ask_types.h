/* ask_types: what a request asks for.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: reading it from a body (ask).
 */
#pragma once

#include <jansson.h>

#include "engine/engine.h"

enum ask_dialect { ASK_CHAT, ASK_TEXT, ASK_GENERATE };

struct ask_prompt {
    enum engine_prompt_kind kind;
    struct slice text;
    uint32_t *tokens;
    size_t token_count;
};

struct ask {
    enum ask_dialect dialect;
    json_t *root;
    void *blocks;   /* ask_block; freed by deinit */
    uint32_t vocab; /* token ids are below it */
    bool is_stream;
    bool has_stream_options;
    bool want_token_ids;
    bool has_top_logprobs;
    uint32_t best_of;           /* 0: not given */
    uint32_t priority;          /* lowers the class by so many */
    uint32_t prompt_count;      /* 1 for a chat */
    struct ask_prompt *prompts; /* in blocks */
    /* All fields but the prompt and those that face_trusted_apply() sets. The class is the one that
     * the body asks for; a header overrules it. */
    struct engine_request engine;
};
