/* answer_format: how a model writes reasoning and calls of tools, found from its chat template.
 *
 * Owns:     the rows of answer_formats.def; nothing else.
 * Thread:   any; found once at start, then read-only.
 * Cost:     one search of the template for each row, and one look at each token.
 * Not here: reading an answer (answer_split), the grammar of calls (answer_grammar).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/models/vocab.h"

/* Marks that a format can have. */
enum answer_mark {
    ANSWER_REASON_OPEN,
    ANSWER_REASON_TITLE, /* no mark: a word behind the opening mark, which is dropped */
    ANSWER_REASON_CLOSE,
    ANSWER_GROUP_OPEN, /* around several calls */
    ANSWER_GROUP_CLOSE,
    ANSWER_CALL_OPEN,
    ANSWER_SEPARATOR, /* between name and arguments */
    ANSWER_CALL_CLOSE,
    ANSWER_QUOTE,     /* around a string, in Gemma's values */
    ANSWER_START,     /* before the sender of a message, in harmony */
    ANSWER_CHANNEL,   /* before its channel */
    ANSWER_CONSTRAIN, /* before the type of its text */
    ANSWER_MESSAGE,   /* before its text */
    ANSWER_END,       /* behind its text */
    ANSWER_MARKS,
};

/* What stands between the marks of a call. */
enum answer_body {
    ANSWER_OBJECT, /* {"name":…,"arguments":{…}} */
    ANSWER_BARE,   /* {"name":…,"parameters":{…}}, mostly without a mark */
    ANSWER_ARRAY,  /* [{"name":…,"arguments":{…}},…] */
    ANSWER_NAMED,  /* name, separator, {…} */
    ANSWER_XML,    /* <function=name><parameter=key>text</parameter>…</function> */
    ANSWER_GEMMA,  /* call:name{key:value,…} */
    ANSWER_HARMONY /* messages with channels; a call is one with a recipient */
};

enum { ANSWER_MARK_BYTES = 32 };

struct answer_format {
    const char *name;
    enum answer_body body;
    uint32_t id_letters;             /* of the id of a call */
    const char *holds[2];            /* what a template of this format holds */
    const char *marks[ANSWER_MARKS]; /* NULL: the format has none */
};

/* A format as one model has it. */
struct answer_model {
    const struct answer_format *format;
    bool has_reasoning; /* the template knows the mark that ends reasoning */
    /* Variables that the template reads. */
    bool reads_effort;    /* reasoning_effort */
    bool reads_thinking;  /* enable_thinking */
    bool reads_verbosity; /* verbosity */
    /* Marks that are control tokens of the model; VOCAB_NONE: the mark is found in the text. */
    uint32_t tokens[ANSWER_MARKS];
};

/* The row of a name, or NULL. */
const struct answer_format *answer_format_named(const char *name);
/* Finds the format of a template; `takes_tools` is what a probe of it says. `vocab` may be NULL:
 * then all marks are text. */
void answer_format_find(struct answer_model *out, struct slice chat_template, bool takes_tools,
                        const struct vocab *vocab);
/* The mark that a control token is, or ANSWER_MARKS. */
enum answer_mark answer_format_mark(const struct answer_model *model, uint32_t token);
