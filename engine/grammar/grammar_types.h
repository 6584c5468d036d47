/* grammar_types: symbols of grammars, and how counted rules hand their numbers on.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Not here: how they are put together (grammar), the compiled form (grammar_form).
 */
#pragma once

#include <stdint.h>

#include "config/base/limits_grammar.h"

/* A rule, a lexeme or a control token of one builder. */
typedef uint32_t grammar_symbol;

#define GRAMMAR_NOTHING   ((grammar_symbol)0) /* matches nothing; a rule that needs it is dropped */
#define GRAMMAR_UNBOUNDED UINT32_MAX          /* `max` of grammar_repeat */
#define GRAMMAR_REPEAT    LIMIT_GRAMMAR_REPEAT /* greatest other `min` and `max` */

enum grammar_end {
    GRAMMAR_GREEDY, /* longest match */
    GRAMMAR_LAZY,   /* first match: "text until <tool_call>" */
    GRAMMAR_NEW,    /* first match, and its text is not yet in the list that the count stands for */
};

enum grammar_ask {
    GRAMMAR_ALWAYS,
    GRAMMAR_CLEAR,    /* (count & value) == 0 */
    GRAMMAR_SET,      /* (count & value) == value */
    GRAMMAR_LEAST,    /* count >= value */
    GRAMMAR_MOST,     /* count <= value */
    GRAMMAR_BITS,     /* at least `value` bits of the count are set */
    GRAMMAR_BITS_MOST /* at most `value` */
};

struct grammar_when {
    enum grammar_ask ask;
    uint64_t value;
};

enum grammar_pass {
    GRAMMAR_PASS_VALUE, /* the count becomes `value` */
    GRAMMAR_PASS_OR,    /* count | value */
    GRAMMAR_PASS_ADD,   /* count + value, at most UINT64_MAX */
    GRAMMAR_PASS_LIST   /* the list with the text of the lexeme before, which is a GRAMMAR_NEW */
};

/* A count that stands for a list of texts has the number of texts in its upper half, so LEAST and
 * MOST ask about it. The empty list is 0. */
#define GRAMMAR_LIST_LEAST(count) ((uint64_t)(count) << 32)
#define GRAMMAR_LIST_MOST(count)  ((uint64_t)(count) << 32 | UINT32_MAX)

/* A symbol of an alternative. A lexeme, a token and a plain rule take no count: for them `pass` is
 * GRAMMAR_PASS_VALUE with value 0. (GRAMMAR_PASS_OR, 0) hands the count on as it is. */
struct grammar_use {
    grammar_symbol symbol;
    enum grammar_pass pass;
    uint64_t value;
};

enum { GRAMMAR_NOTES = 2 }; /* words of grammar_note */
