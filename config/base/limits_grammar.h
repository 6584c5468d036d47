/* limits_grammar: bounds of constrained decoding: sources, regexes, grammars, their runs and masks.
 *
 * Owns:     numbers, with their reasons.
 * Not here: bounds of JSON Schemas (limits_schema.h), of everything else (limits.h), and what an
 *           operator may set (options.def).
 */
#pragma once

/* --- sources --- */
#define LIMIT_GRAMMAR_SOURCE_BYTES (256 * 1024) /* the largest schema of the sample has 160 KiB */
#define LIMIT_GRAMMAR_DEPTH        128 /* groups of a regex inside each other; sizes a stack */
/* of a regex, of a list, of a text; and what counts inside counts multiply to in a regex */
#define LIMIT_GRAMMAR_REPEAT 65535

/* --- compilation --- */
#define LIMIT_COMPILE_STEPS   20000000 /* nodes, merges, expansions: less than 0.5 s of CPU */
#define LIMIT_COMPILE_LOOK    4096     /* steps between two looks at the flag of cancellation */
#define LIMIT_GRAMMAR_NODES   262144   /* of the regexes of a grammar, derivatives included */
#define LIMIT_GRAMMAR_SETS    16384    /* different byte sets of a grammar */
#define LIMIT_GRAMMAR_CHARS   4096     /* different character classes that a grammar remembers */
#define LIMIT_GRAMMAR_LEXEMES 16384
#define LIMIT_GRAMMAR_RULES   65536
#define LIMIT_GRAMMAR_SYMBOLS 1048576 /* of all alternatives: 16 MiB while it is compiled */
/* operations of a regex inside each other, which derivation follows: sizes the C stack */
#define LIMIT_GRAMMAR_NESTING 1024

/* --- a compiled grammar, which grows while it is used --- */
/* of its lexer: a text of JSON with `maxLength` N takes 14 states a character */
#define LIMIT_GRAMMAR_STATES 131072
#define LIMIT_GRAMMAR_BYTES  (32 * 1024 * 1024)
/* for one entry of the lexer's table: 5 ms; an alternative of 4,096 texts takes 30,000 */
#define LIMIT_GRAMMAR_FILL_STEPS 262144
/* Derivatives that are looked at to see that a state of the lexer can still match. If it cannot be
 * seen, the state is taken to match. */
#define LIMIT_GRAMMAR_LOOK_STEPS 1024
#define LIMIT_GRAMMAR_KEPT       256  /* kept masks of a grammar */
#define LIMIT_GRAMMAR_EXITS      4096 /* of a kept mask: tokens in which its lexeme ends */
#define LIMIT_GRAMMAR_KEPT_NODES 2000 /* a shorter walk takes 10 µs: its mask is not kept */
/* character classes that are made for one grammar: each takes up to 12 ms */
#define LIMIT_GRAMMAR_CLASSES 4

/* --- the cache of compiled grammars --- */
#define LIMIT_GRAMMAR_DOMAIN_BYTES (64 * 1024 * 1024)
#define LIMIT_GRAMMAR_DOMAIN_COUNT 256

/* --- runs and masks --- */
#define LIMIT_GRAMMAR_RUN_BYTES (256 * 1024)
#define LIMIT_GRAMMAR_BACK      32 /* tokens that a run can take back: drafts of one step */
#define LIMIT_GRAMMAR_ROW_ITEMS 4096
#define LIMIT_GRAMMAR_TEXTS     2048  /* items of lists whose items all differ: 32 KiB */
#define LIMIT_GRAMMAR_ROW_STEPS 65536 /* items that are added or looked at for one row: 0.5 ms */
/* trie nodes and items of one mask in one step: 0.25 ms, a twentieth of a step of a small model */
#define LIMIT_GRAMMAR_MASK_FUEL 50000
/* the same of the mask behind a draft token: without it the draft is dropped */
#define LIMIT_GRAMMAR_DRAFT_FUEL 10000
/* of all rows of one mask, 20 ms: a mask that takes more ends the answer */
#define LIMIT_GRAMMAR_MASK_ROW_STEPS 3200000
#define LIMIT_GRAMMAR_FORCED_STEPS   50000 /* of all rows of one forced text: 0.25 ms */
#define LIMIT_GRAMMAR_FORCED_TOKENS  256   /* of a sequence in one step */
#define LIMIT_GRAMMAR_MERGE_NODES    10000 /* tried, to see if a forced token may grow: 50 µs */
#define LIMIT_TOKEN_CLASSES          16    /* character classes of a model that have masks */
#define LIMIT_TOKEN_CLASS_CHARS      128   /* longest token of a class that has a mask of its own */

/* --- Lark and choices --- */
#define LIMIT_LARK_NODES     65536
#define LIMIT_LARK_NAMES     4096
#define LIMIT_LARK_DEPTH     64  /* brackets inside each other; sizes the C stack */
#define LIMIT_LARK_TERMINALS 256 /* terminals that refer to each other, the same */
#define LIMIT_LARK_REPEAT    65535
#define LIMIT_LARK_SCHEMAS   16  /* of %json; the fuel is shared */
#define LIMIT_LARK_IGNORED   128 /* bytes of white space and comments in one place */
#define LIMIT_CHOICE_TEXTS   1024
