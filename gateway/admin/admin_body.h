/* admin_body: reads the JSON objects that admins send, and accepts known fields of the right types
 * only.
 *
 * Owns:     the parsed tree of one body.
 * Thread:   any.
 * Cost:     one jansson tree of at most LIMIT_ADMIN_BODY_BYTES of text.
 * Not here: what values mean, how they stand to each other (auth/tenants/tenant checks those).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

/* The kinds of fields; behind "→" the members of admin_body_field that get the value. */
enum admin_body_kind {
    ADMIN_BODY_TEXT,           /* → text */
    ADMIN_BODY_NUMBER,         /* → number */
    ADMIN_BODY_TEXT_OR_NULL,   /* → text, is_null */
    ADMIN_BODY_NUMBER_OR_NULL, /* → number, is_null */
    /* A number, {"limit":n,"mode":"enforce"|"shadow"} or null → number, is_shadow, is_null. */
    ADMIN_BODY_LIMIT,
    ADMIN_BODY_WORD,         /* one word that `find` knows → number: its bit */
    ADMIN_BODY_WORD_OR_NULL, /* → number, is_null */
    ADMIN_BODY_WORDS,        /* a list of such words, each once → number: all their bits */
    ADMIN_BODY_PAIRS,        /* an object of strings, like OpenAI's metadata → json */
    ADMIN_BODY_NAMES,        /* a list of texts, each once → json; number: how many */
    ADMIN_BODY_LONG_TEXT,    /* a text of any characters, not empty → json */
    ADMIN_BODY_MESSAGES,     /* the messages of a chat, at least one → json */
    ADMIN_BODY_OBJECT,       /* any object → json */
};

struct admin_body_field {
    const char *name;
    enum admin_body_kind kind;
    bool is_required;
    int64_t least;                       /* of a number */
    int64_t most;                        /* of a number, of bytes of a text, of names of a list */
    uint32_t (*find)(struct slice word); /* returns the word's bit, 0 for an unknown word */
    const char *words;                   /* the known words, for the error's text */
    /* Results. A null leaves text and number empty. */
    bool is_given;
    bool is_null;
    bool is_shadow;
    char text[256]; /* valid UTF-8 without NUL */
    int64_t number;
    struct buffer json;
};

/* Fills `fields` from a JSON object; an empty body counts as {}. INVALID, OUT_OF_RANGE or
 * UNSUPPORTED (a field that is not in the list), with the field as param; LIMIT when the body is
 * too long; NO_MEMORY. Always call admin_body_free() afterwards. */
enum status admin_body_read(struct slice body, struct admin_body_field *fields, size_t count);
void admin_body_free(struct admin_body_field *fields, size_t count);
