/* chat_template_code: the program that the parser makes of a template and the evaluator runs.
 *
 * Owns:     the instructions, scopes and names, and the bytes of all literals.
 * Thread:   made at start, then read-only from any.
 * Cost:     16 bytes an instruction.
 * Not here: making it (chat_template_parser), running it (chat_template_eval).
 *
 * The program works on a stack of values. Jumps are relative to their own instruction, so that a
 * run of instructions can be moved. {{ 'a' ~ x }}{% if x %}b{% endif %} becomes
 *
 *     0 STRING "a"    2 CONCAT    4 NAME x             6 TEXT "b"
 *     1 NAME x        3 PRINT     5 JUMP_FALSE +2      7 END
 *
 * A scope is a part of the template with variables of its own: the template, the body of a loop, a
 * macro, a block. A variable is found by the number of scopes to go outwards, and its slot there.
 * A scope that assigns a variable of the scopes around it has a copy, as in jinja2.
 */
#pragma once

#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum chat_template_code_kind {
    CHAT_TEMPLATE_CODE_END,
    CHAT_TEMPLATE_CODE_TEXT,      /* print literal a … a + b */
    CHAT_TEMPLATE_CODE_PRINT,     /* pop and print */
    CHAT_TEMPLATE_CODE_STRING,    /* push literal a … a + b */
    CHAT_TEMPLATE_CODE_INTEGER,   /* push the number of 64 bits in a (low half) and b */
    CHAT_TEMPLATE_CODE_FLOAT,     /* the same as a double */
    CHAT_TEMPLATE_CODE_BOOL,      /* push a */
    CHAT_TEMPLATE_CODE_NONE,      /* push none */
    CHAT_TEMPLATE_CODE_UNDEFINED, /* push an undefined value */
    CHAT_TEMPLATE_CODE_NAME,      /* push slot b of the scope a steps outwards */
    CHAT_TEMPLATE_CODE_SET,       /* pop into slot b of the innermost scope */
    CHAT_TEMPLATE_CODE_SET_PART,  /* pop a namespace, pop a value, set attribute a … a + b */
    CHAT_TEMPLATE_CODE_UNPACK,    /* pop a sequence of a values, push them, the first on top */
    CHAT_TEMPLATE_CODE_LIST,      /* pop a values, push a list */
    CHAT_TEMPLATE_CODE_TUPLE,
    CHAT_TEMPLATE_CODE_DICT,      /* pop a pairs */
    CHAT_TEMPLATE_CODE_ATTRIBUTE, /* pop a value, push its attribute a … a + b */
    CHAT_TEMPLATE_CODE_ITEM,      /* pop key, pop container, push value */
    CHAT_TEMPLATE_CODE_SLICE,     /* pop the parts of which bits are set in a, pop, push */
    CHAT_TEMPLATE_CODE_NOT,
    CHAT_TEMPLATE_CODE_NEGATE,
    CHAT_TEMPLATE_CODE_PLUS,
    CHAT_TEMPLATE_CODE_ADD, /* this and the next ones: pop right, pop left, push */
    CHAT_TEMPLATE_CODE_SUBTRACT,
    CHAT_TEMPLATE_CODE_MULTIPLY,
    CHAT_TEMPLATE_CODE_DIVIDE,
    CHAT_TEMPLATE_CODE_FLOOR,
    CHAT_TEMPLATE_CODE_MODULO,
    CHAT_TEMPLATE_CODE_POWER,
    CHAT_TEMPLATE_CODE_CONCAT,
    CHAT_TEMPLATE_CODE_EQUAL,
    CHAT_TEMPLATE_CODE_NOT_EQUAL,
    CHAT_TEMPLATE_CODE_LESS,
    CHAT_TEMPLATE_CODE_LESS_EQUAL,
    CHAT_TEMPLATE_CODE_GREATER,
    CHAT_TEMPLATE_CODE_GREATER_EQUAL,
    CHAT_TEMPLATE_CODE_IN,
    CHAT_TEMPLATE_CODE_NOT_IN,
    /* Pops right, pops left and compares them by the instruction b. False: pushes it and jumps by
     * a. True: pushes right, for the next comparison of the chain. */
    CHAT_TEMPLATE_CODE_CHAIN,
    CHAT_TEMPLATE_CODE_TEST,            /* test a, arguments b; pops them and the value */
    CHAT_TEMPLATE_CODE_FILTER,          /* filter a, arguments b */
    CHAT_TEMPLATE_CODE_CALL,            /* pops arguments b and what is called */
    CHAT_TEMPLATE_CODE_JUMP,            /* by a */
    CHAT_TEMPLATE_CODE_JUMP_FALSE,      /* pop; by a when it is false */
    CHAT_TEMPLATE_CODE_JUMP_TRUE,       /* pop; by a when it is true */
    CHAT_TEMPLATE_CODE_JUMP_FALSE_KEEP, /* by a when the top is false, else pop */
    CHAT_TEMPLATE_CODE_JUMP_TRUE_KEEP,
    CHAT_TEMPLATE_CODE_JUMP_GIVEN, /* by a when the argument in slot b was given */
    CHAT_TEMPLATE_CODE_FOR, /* pop, begin a loop with scope b, push an element; else jump by a */
    CHAT_TEMPLATE_CODE_FILTER_FOR, /* a loop that keeps elements and pushes their list at its end */
    CHAT_TEMPLATE_CODE_NEXT,       /* push the next element and jump by a, or end the loop */
    CHAT_TEMPLATE_CODE_BREAK,      /* end the loop and jump by a */
    CHAT_TEMPLATE_CODE_COLLECT,    /* pop; when it is true, keep the loop's element */
    CHAT_TEMPLATE_CODE_OPEN,       /* begin scope b */
    CHAT_TEMPLATE_CODE_CLOSE,      /* end the innermost scope */
    CHAT_TEMPLATE_CODE_CAPTURE,    /* collect what is printed from here on */
    CHAT_TEMPLATE_CODE_CAPTURED,   /* push what was collected */
    CHAT_TEMPLATE_CODE_MACRO,      /* push macro a of the innermost scope */
    CHAT_TEMPLATE_CODE_RETURN,     /* end the macro: push what it printed */
};

/* Arguments of a call in one number: by position in the low half, named ones in the high half. */
enum { CHAT_TEMPLATE_CODE_NAMED = 16 };

/* Variables that a render sets; they have the first slots of the template's scope. `tools` and
 * `documents` are none, not undefined, as in the libraries that run these templates. */
enum chat_template_code_name {
    CHAT_TEMPLATE_CODE_NAME_MESSAGES,
    CHAT_TEMPLATE_CODE_NAME_PROMPT, /* add_generation_prompt */
    CHAT_TEMPLATE_CODE_NAME_BOS,
    CHAT_TEMPLATE_CODE_NAME_EOS,
    CHAT_TEMPLATE_CODE_NAME_TOOLS,
    CHAT_TEMPLATE_CODE_NAME_DOCUMENTS,
    CHAT_TEMPLATE_CODE_NAME_GIVEN,
};

/* Slots with a meaning in the scopes of loops and macros. */
enum {
    CHAT_TEMPLATE_CODE_SLOT_LOOP = 0,   /* `loop` */
    CHAT_TEMPLATE_CODE_SLOT_CALLER = 0, /* `caller`; the parameters follow */
};

struct chat_template_code {
    uint32_t kind; /* enum chat_template_code_kind */
    uint32_t line;
    uint32_t a;
    uint32_t b;
};

struct chat_template_scope {
    uint32_t slots;
};

/* A slot that is filled when its scope begins, from that of a scope around it. */
struct chat_template_copy {
    uint32_t scope;
    uint32_t slot;
    uint32_t outwards;
    uint32_t from;
};

struct chat_template_macro {
    uint32_t entry; /* its first instruction */
    uint32_t scope;
    uint32_t params;      /* in the slots 1 … params */
    uint32_t first_param; /* in params of the program: their names */
};

/* A run of the literals. */
struct chat_template_word {
    uint32_t offset;
    uint32_t length;
};

struct chat_template_program {
    struct chat_template_code *code; /* [count], the last one is END */
    uint32_t count;
    uint32_t capacity;
    struct chat_template_scope scopes[LIMIT_TEMPLATE_NAMES]; /* 0 is the template's */
    uint32_t scope_count;
    struct chat_template_copy copies[LIMIT_TEMPLATE_NAMES];
    uint32_t copy_count;
    struct chat_template_macro macros[LIMIT_TEMPLATE_NAMES];
    uint32_t macro_count;
    struct chat_template_word params[LIMIT_TEMPLATE_NAMES];
    uint32_t param_count;
    struct chat_template_word names[LIMIT_TEMPLATE_NAMES]; /* by slot of the template's scope */
    struct buffer literals;
};
