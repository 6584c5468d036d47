/* admin_body: reads the JSON objects that admins send: known fields, right types, nothing else.
 *
 * Owns:     the parsed tree of one body.
 * Thread:   any.
 * Cost:     one jansson tree of at most LIMIT_ADMIN_BODY_BYTES of text.
 * Not here: what values mean, how they stand to each other (auth/tenants/tenant checks those).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

enum admin_body_kind {
    ADMIN_BODY_TEXT,           /* → text */
    ADMIN_BODY_NUMBER,         /* → number */
    ADMIN_BODY_TEXT_OR_NULL,   /* → text, "" and is_null for null */
    ADMIN_BODY_NUMBER_OR_NULL, /* → number, 0 and is_null for null */
    ADMIN_BODY_LIMIT,        /* a number, {"limit":n,"mode":"enforce"|"shadow"} or null → number,
                       * is_shadow, is_null */
    ADMIN_BODY_WORD,         /* one word that `find` knows → number */
    ADMIN_BODY_WORD_OR_NULL, /* … or 0 and is_null for null */
    ADMIN_BODY_WORDS,        /* a list of such words, each once → number, their sum */
    ADMIN_BODY_PAIRS,        /* an object of strings, as OpenAI's metadata → json */
    ADMIN_BODY_NAMES,        /* a list of texts, each once → json, number: how many */
    ADMIN_BODY_LONG_TEXT,    /* of any characters, not empty → json */
    ADMIN_BODY_MESSAGES,     /* a chat's, at least one → json */
    ADMIN_BODY_OBJECT,       /* whatever is in it → json */
};

struct admin_body_field {
    const char *name;
    enum admin_body_kind kind;
    bool is_required;
    int64_t least;                       /* numbers */
    int64_t most;                        /* numbers; bytes of a text; names of a list */
    uint32_t (*find)(struct slice word); /* the word's bit; 0: unknown */
    const char *words;                   /* the known ones, for the message */
    /* Results. */
    bool is_given;
    bool is_null;
    bool is_shadow;
    char text[256]; /* valid UTF-8 without NUL */
    int64_t number;
    struct buffer json;
};

/* Fills `fields` from a JSON object. INVALID, OUT_OF_RANGE or UNSUPPORTED (a field that is not in
 * the list), with param; LIMIT when the body is too long. An empty body counts as {}. Always call
 * admin_body_free afterwards. */
enum status admin_body_read(struct slice body, struct admin_body_field *fields, size_t count);
void admin_body_free(struct admin_body_field *fields, size_t count);
