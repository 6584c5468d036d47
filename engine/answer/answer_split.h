/* answer_split: splits what a model writes into content, reasoning and calls of tools.
 *
 *     text and marks ─► marks found ─► content | reasoning | a body (answer_body_*) ─► parts
 *
 * Owns:     the state of one answer, and what it holds back: the beginning of a mark, newlines
 *           before one, a call until its name is known (LIMIT_CALL_HELD_BYTES).
 * Thread:   one at a time.
 * Cost:     O(bytes × marks that may come); a byte is looked at again at most once for each byte
 *           of a mark.
 * Not here: stop strings and UTF-8 (text_stream), JSON frames (gateway).
 *
 * It is an automaton over bytes and marks, so the parts do not depend on how the stream was cut.
 * Only the number of pieces in which one part is given out depends on that.
 *   - Text that begins like a call but turns out not to be one is content, with its marks.
 *   - Models forget marks: an answer that begins with {"name":"f", is a call if f is a tool.
 *   - Newlines around reasoning and before, between and behind calls are dropped.
 *   - If arguments are no JSON, the model's bytes up to the closing mark are passed on.
 */
#pragma once

#include "engine/answer/answer_body_gemma.h"
#include "engine/answer/answer_body_harmony.h"
#include "engine/answer/answer_body_json.h"
#include "engine/answer/answer_body_xml.h"
#include "engine/answer/answer_emit.h"
#include "engine/answer/answer_format.h"

struct answer_split_options {
    const struct answer_model *model;
    bool has_calls;           /* false: marks of calls are content */
    bool begins_in_reasoning; /* the prompt ended with the opening mark */
    bool reasons_once;        /* marks that open reasoning are content: a constraint made them */
    struct answer_tools tools;
    /* Gets each part; its text is valid until it returns. */
    void (*take)(void *context, const struct answer_part *part);
    void *context;
};

struct answer_split {
    struct answer_split_options options;
    struct answer_emit emit;
    uint8_t phase;
    bool is_at_start;  /* of content or reasoning: newlines are dropped */
    bool has_begun;    /* something else than white space has come */
    uint8_t title;     /* bytes of the title of reasoning that have come */
    uint32_t newlines; /* kept back */
    uint32_t window_length;
    char window[2 * ANSWER_MARK_BYTES]; /* bytes that may become a mark */
    union {
        struct answer_body_json json;
        struct answer_body_xml xml;
        struct answer_body_gemma gemma;
        struct answer_body_harmony harmony;
    } body;
};

void answer_split_init(struct answer_split *split, const struct answer_split_options *options);
void answer_split_deinit(struct answer_split *split);

/* The next text. */
void answer_split_text(struct answer_split *split, struct slice text);
/* A control token that is a mark of the format. */
void answer_split_mark(struct answer_split *split, enum answer_mark mark);
/* The answer has ended; what is held back is given out. */
void answer_split_end(struct answer_split *split);

/* Whether the answer is inside reasoning now. */
bool answer_split_is_reasoning(const struct answer_split *split);
/* Calls so far. */
uint32_t answer_split_calls(const struct answer_split *split);
/* LIMIT or NO_MEMORY when a part is missing. */
enum status answer_split_status(const struct answer_split *split);
