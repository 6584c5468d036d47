/* ask_types: what a request asks for.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     –
 * Not here: reading it from a body (ask).
 */
#pragma once

#include <jansson.h>

#include "config/base/limits_tools.h"
#include "engine/answer/answer_format.h"
#include "engine/engine.h"

enum ask_dialect { ASK_CHAT, ASK_TEXT, ASK_GENERATE, ASK_EMBED };

struct ask_prompt {
    enum engine_prompt_kind kind;
    struct slice text;
    uint32_t *tokens;
    size_t token_count;
};

/* What the body is checked against. */
struct ask_model {
    const char *name;                  /* NULL: the caller looks the name up */
    uint32_t vocab;                    /* token ids are below it */
    const struct answer_model *answer; /* how it writes calls; outlives the ask */
    /* A server behind this one renders the template, constrains the answer and splits it: what the
     * request has of these goes there as it is. `answer` is NULL then. */
    bool is_foreign;
    enum engine_pooling pooling; /* of its embeddings; NONE: it gives none */
    uint32_t width;              /* numbers of an embedding */
};

/* Which tools the answer may call. */
enum ask_tool_choice {
    ASK_TOOLS_AUTO,
    ASK_TOOLS_NONE,
    ASK_TOOLS_REQUIRED, /* at least one call, and nothing else but reasoning */
};

struct ask_tools {
    uint32_t count;     /* 0: the request has none */
    const json_t *list; /* NULL: not given */
    const json_t *choice_json;
    enum ask_tool_choice choice;
    bool is_single;      /* at most one call */
    bool is_free;        /* calls are not constrained: the model's format cannot be beside text */
    struct buffer names; /* of the tools, each with a newline behind it */
    uint64_t allowed[LIMIT_TOOLS / 64]; /* bit i: tool i may be called */
    /* For the splitter: "tool\t" for each tool that may be called, and "tool\tparameter" for each
     * of its parameters that is a string by its schema; then their places, sorted, and how many. */
    struct buffer lines;
};

/* Variables of the template. */
struct ask_variables {
    const json_t *given; /* chat_template_kwargs; NULL: not given */
    struct slice effort; /* reasoning_effort; empty: not given */
    struct slice verbosity;
};

struct ask {
    enum ask_dialect dialect;
    json_t *root;
    void *blocks; /* ask_block; freed by deinit */
    struct ask_model model;
    struct ask_tools tools;
    struct ask_variables variables;
    bool is_split;       /* the answer is split into content, reasoning and calls */
    bool is_constrained; /* … only where its prompt has opened reasoning: else all is content */
    bool is_stream;
    bool has_stream_options;
    bool want_token_ids;
    bool is_base64; /* encoding_format of embeddings */
    bool has_top_logprobs;
    uint32_t best_of;           /* 0: not given */
    uint32_t priority;          /* lowers the class by so many */
    uint32_t prompt_count;      /* 1 for a chat */
    bool is_list;               /* the prompts are elements of a list */
    struct ask_prompt *prompts; /* in blocks */
    /* All fields but the prompt and those that face_trusted_apply() sets. The class is the one that
     * the body asks for; a header overrules it. */
    struct engine_request engine;
};
