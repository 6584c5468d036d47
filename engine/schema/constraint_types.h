/* constraint_types: what every kind of constraint is given and what it says when it is refused.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Not here: compilation (constraint).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum constraint_kind {
    CONSTRAINT_JSON_SCHEMA, /* source: the schema, JSON */
    CONSTRAINT_JSON_OBJECT, /* any JSON object of depth at most 32; the source is empty */
    CONSTRAINT_REGEX,       /* source: a regex for the whole answer */
    CONSTRAINT_CHOICE,      /* source: a JSON array of texts */
    CONSTRAINT_LARK,        /* source: a Lark grammar */
};

struct lark_tokens;

struct constraint_options {
    /* OpenAI's `strict`: unknown keywords and formats are refused, and an object whose properties
     * are named has no others. */
    bool strict;
    bool disable_any_whitespace;        /* no white space between the tokens of JSON */
    bool disable_additional_properties; /* objects are closed as with strict */
    /* Bytes that no token of the vocabulary has, a bit for each byte: bit b % 64 of word b / 64.
     * They are cut from the grammar, so that a text that no model can write is refused here. */
    uint64_t missing_bytes[4];
    /* Control tokens that a Lark grammar may name; NULL: none. It is borrowed. */
    const struct lark_tokens *tokens;
};

enum { CONSTRAINT_PATH_BYTES = 256, CONSTRAINT_KEYWORD_BYTES = 64, CONSTRAINT_MESSAGE_BYTES = 256 };

/* What is wrong with a source. Texts end with a NUL and are cut to their room; they quote the
 * source, so they may be shown to who sent it, and never reach a log. */
struct constraint_error {
    /* Where it stands: ".properties.x.pattern", "line 3"; "" is the source. */
    char path[CONSTRAINT_PATH_BYTES];
    char keyword[CONSTRAINT_KEYWORD_BYTES]; /* "pattern", or "" */
    char message[CONSTRAINT_MESSAGE_BYTES]; /* a whole sentence */
};
