/* chat_template_code: the program that the parser makes of a template and the evaluator runs.
 *
 * Owns:     the instructions and the bytes of all literals.
 * Thread:   made at start, then read-only from any.
 * Cost:     16 bytes an instruction.
 * Not here: making it (chat_template_parser), running it (chat_template_eval).
 *
 * The program works on a stack of values. {{ 'a' + x }}{% if x %}b{% endif %} becomes
 *
 *     0 STRING "a"    2 ADD      4 NAME x           6 TEXT "b"
 *     1 NAME x        3 PRINT    5 JUMP_FALSE 7     7 END
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum chat_template_code_kind {
    CHAT_TEMPLATE_CODE_END,
    CHAT_TEMPLATE_CODE_TEXT,    /* print literal a … a + b */
    CHAT_TEMPLATE_CODE_PRINT,   /* pop and print */
    CHAT_TEMPLATE_CODE_STRING,  /* push literal a … a + b */
    CHAT_TEMPLATE_CODE_INTEGER, /* push (int32_t)a */
    CHAT_TEMPLATE_CODE_BOOL,    /* push a */
    CHAT_TEMPLATE_CODE_NONE,    /* push none */
    CHAT_TEMPLATE_CODE_NAME,    /* push variable a */
    CHAT_TEMPLATE_CODE_SET,     /* pop into variable a */
    CHAT_TEMPLATE_CODE_LOOP,    /* push attribute a of the innermost loop */
    CHAT_TEMPLATE_CODE_INDEX,   /* pop key, pop container, push value */
    CHAT_TEMPLATE_CODE_NOT,
    CHAT_TEMPLATE_CODE_ADD, /* this and the next ones: pop right, pop left, push */
    CHAT_TEMPLATE_CODE_SUBTRACT,
    CHAT_TEMPLATE_CODE_MODULO,
    CHAT_TEMPLATE_CODE_JOIN,
    CHAT_TEMPLATE_CODE_EQUAL,
    CHAT_TEMPLATE_CODE_NOT_EQUAL,
    CHAT_TEMPLATE_CODE_LESS,
    CHAT_TEMPLATE_CODE_LESS_EQUAL,
    CHAT_TEMPLATE_CODE_GREATER,
    CHAT_TEMPLATE_CODE_GREATER_EQUAL,
    CHAT_TEMPLATE_CODE_IN,
    CHAT_TEMPLATE_CODE_NOT_IN,
    CHAT_TEMPLATE_CODE_TEST,            /* pop, push whether it is a; b = 1 negates */
    CHAT_TEMPLATE_CODE_FILTER,          /* pop, push filtered by a */
    CHAT_TEMPLATE_CODE_RAISE,           /* pop the message and fail */
    CHAT_TEMPLATE_CODE_JUMP,            /* to a */
    CHAT_TEMPLATE_CODE_JUMP_FALSE,      /* pop; to a when it is false */
    CHAT_TEMPLATE_CODE_JUMP_FALSE_KEEP, /* to a when the top is false, else pop */
    CHAT_TEMPLATE_CODE_JUMP_TRUE_KEEP,
    CHAT_TEMPLATE_CODE_FOR,  /* pop a list, begin a loop with variable b; to a when it is empty */
    CHAT_TEMPLATE_CODE_NEXT, /* next round from a, or end the loop */
};

enum chat_template_code_loop {
    CHAT_TEMPLATE_CODE_LOOP_INDEX,
    CHAT_TEMPLATE_CODE_LOOP_INDEX0,
    CHAT_TEMPLATE_CODE_LOOP_FIRST,
    CHAT_TEMPLATE_CODE_LOOP_LAST,
    CHAT_TEMPLATE_CODE_LOOP_LENGTH,
};

enum chat_template_code_test {
    CHAT_TEMPLATE_CODE_TEST_DEFINED,
    CHAT_TEMPLATE_CODE_TEST_UNDEFINED,
    CHAT_TEMPLATE_CODE_TEST_NONE,
    CHAT_TEMPLATE_CODE_TEST_STRING,
};

enum chat_template_code_filter {
#define CHAT_FILTER(NAME, name) CHAT_TEMPLATE_CODE_FILTER_##NAME,
#include "engine/text/chat_filters.def"
#undef CHAT_FILTER
};

/* Variables that a render sets; the template's own follow. `tools` and `documents` are none, not
 * undefined, as in the libraries that run these templates. */
enum chat_template_code_name {
    CHAT_TEMPLATE_CODE_NAME_MESSAGES,
    CHAT_TEMPLATE_CODE_NAME_PROMPT, /* add_generation_prompt */
    CHAT_TEMPLATE_CODE_NAME_BOS,
    CHAT_TEMPLATE_CODE_NAME_EOS,
    CHAT_TEMPLATE_CODE_NAME_TOOLS,
    CHAT_TEMPLATE_CODE_NAME_DOCUMENTS,
    CHAT_TEMPLATE_CODE_NAME_GIVEN,
};

struct chat_template_code {
    uint32_t kind; /* enum chat_template_code_kind */
    uint32_t line;
    uint32_t a;
    uint32_t b;
};

struct chat_template_program {
    struct chat_template_code *code; /* [count], the last one is END */
    uint32_t count;
    uint32_t capacity;
    uint32_t name_count;
    struct buffer literals;
};
