/* answer_emit: the parts of an answer, as a splitter makes them.
 *
 * Owns:     the run of bytes that is not given out yet, and the bytes of a call whose name is not
 *           known yet.
 * Thread:   one at a time.
 * Cost:     O(bytes).
 * Not here: deciding what the bytes are (answer_split, answer_body_*).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

struct answer_part {
    enum answer_part_kind {
        ANSWER_CONTENT,
        ANSWER_REASONING,
        ANSWER_CALL_BEGIN,     /* without text */
        ANSWER_CALL_NAME,      /* the whole name */
        ANSWER_CALL_ARGUMENTS, /* a piece of the arguments' JSON */
        ANSWER_CALL_END,       /* without text */
    } kind;
    uint32_t call; /* index in the answer, of the last four kinds */
    struct slice text;
};

/* What is known of the tools that the answer may call. Both functions may be NULL: then nothing is
 * known, and no name is one of a tool. */
struct answer_tools {
    bool (*has)(void *context, struct slice tool);
    /* Whether a parameter is a string by its schema, and nothing else. */
    bool (*is_text)(void *context, struct slice tool, struct slice parameter);
    void *context;
};

static inline bool answer_tools_has(const struct answer_tools *tools, struct slice tool)
{
    return tools->has != NULL && tools->has(tools->context, tool);
}

struct answer_emit {
    void (*take)(void *context, const struct answer_part *part);
    void *context;
    enum answer_part_kind kind; /* of the run */
    struct buffer run;
    struct buffer held; /* a call so far, with its marks: content if it turns out to be none */
    uint32_t calls;     /* begun */
    bool is_open;       /* a call has begun and has not ended */
    bool has_arguments; /* of the open call */
};

void answer_emit_init(struct answer_emit *emit,
                      void (*take)(void *context, const struct answer_part *part), void *context);
void answer_emit_deinit(struct answer_emit *emit);
/* The first failure of a buffer: LIMIT or NO_MEMORY. */
enum status answer_emit_status(const struct answer_emit *emit);

/* Adds to the run; a run of another kind is given out before. */
void answer_emit_text(struct answer_emit *emit, enum answer_part_kind kind, struct slice text);
void answer_emit_byte(struct answer_emit *emit, enum answer_part_kind kind, char byte);
/* Adds one byte of a text to the arguments, inside a JSON string. */
void answer_emit_escaped(struct answer_emit *emit, char byte);
/* Gives out the run. */
void answer_emit_flush(struct answer_emit *emit);

/* Keeps bytes of a call whose name is not known yet; false when there are too many. */
bool answer_emit_hold(struct answer_emit *emit, struct slice bytes);
/* Gives out what is held as content: it was no call. */
void answer_emit_release(struct answer_emit *emit);
/* Whether a call may have this name: [A-Za-z0-9_.-]{1,64}. */
bool answer_emit_is_name(struct slice name);
/* Begins a call, and drops what is held. False when the name is none, or an answer has had
 * LIMIT_CALLS calls. */
bool answer_emit_begin(struct answer_emit *emit, struct slice name);
/* Ends the open call. A whole one without arguments gets {}. */
void answer_emit_end(struct answer_emit *emit, bool is_whole);
