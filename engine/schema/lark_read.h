/* lark_read: the text of a Lark grammar, as definitions made of nodes.
 *
 * Owns:     nodes, definitions, and the bytes of strings that had escapes. Other texts point into
 *           the source.
 * Thread:   one.
 * Cost:     one pass; recursion only for brackets, at most LIMIT_LARK_DEPTH deep.
 * Not here: what names mean, rules and lexemes (lark), the regexes between slashes (regex_parse).
 *
 * What is read: rules, terminals, "strings"i, "a".."z", /regexes/ with the flags i and s, groups,
 * [optional parts], the operators ? * + ~ and {m,n}, aliases (without effect), %import common.NAME,
 * %ignore, control tokens such as <|im_end|>, and in rules %json {a JSON Schema}. Templates,
 * priorities, %override, %extend and %declare are refused by name.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

enum { LARK_NONE = UINT32_MAX, LARK_MESSAGE_BYTES = 200, LARK_KEYWORD_BYTES = 32 };

enum lark_kind {
    LARK_TEXT,     /* `text` without its quotes and escapes */
    LARK_RANGE,    /* from the code point `min` to `max` */
    LARK_REGEX,    /* `text` between the slashes */
    LARK_NAME,     /* of a rule or terminal */
    LARK_CONTROL,  /* `text` with its brackets */
    LARK_JSON,     /* values under the JSON Schema `text` */
    LARK_EITHER,   /* one of its parts */
    LARK_SEQUENCE, /* all of its parts in order; none: the empty text */
    LARK_REPEAT,   /* its one part from `min` to `max` times; LARK_NONE: without bound */
};

struct lark_node {
    enum lark_kind kind;
    bool any_case; /* of a text or regex: letters of ASCII in either case */
    bool dot_all;  /* of a regex: `.` is also a line end */
    uint32_t line;
    uint32_t first; /* part, or LARK_NONE */
    uint32_t next;  /* part of the node above, or LARK_NONE */
    uint32_t min;
    uint32_t max;
    struct slice text;
};

struct lark_definition {
    struct slice name;
    uint32_t node; /* LARK_NONE: a name of `common`, `imported` */
    struct slice imported;
    uint32_t line;
    bool is_terminal; /* its first letter is a capital, or it is imported */
};

struct lark_error {
    uint32_t line;                    /* from 1; 0 for the whole source */
    char keyword[LARK_KEYWORD_BYTES]; /* "%override", or "" */
    char message[LARK_MESSAGE_BYTES]; /* a whole sentence; quotes the source, so it is not logged */
};

struct lark_read {
    struct lark_node *nodes;
    struct lark_definition *definitions;
    uint32_t *ignored; /* nodes of %ignore */
    uint32_t node_count;
    uint32_t node_capacity;
    uint32_t definition_count;
    uint32_t definition_capacity;
    uint32_t ignored_count;
    uint32_t schema_count;
    char *strings;
    size_t strings_used;
};

/* INVALID, UNSUPPORTED, LIMIT or NO_MEMORY with `error`; then nothing is left to free. `source`
 * must outlive `out`. */
enum status lark_read(struct lark_read *out, struct slice source, struct lark_error *error);
void lark_read_free(struct lark_read *lark);

/* Fills `error` and returns `status`. */
enum status lark_read_fail(struct lark_error *error, enum status status, uint32_t line,
                           const char *keyword, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
