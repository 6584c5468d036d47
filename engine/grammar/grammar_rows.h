/* grammar_rows: Earley's rows: which dotted rules are under way after each lexeme.
 *
 * Owns:     an arena of rows and items, and the scratch memory to make a row.
 * Thread:   one at a time.
 * Cost:     a row takes a step for each item that is added or looked at, at most
 *           LIMIT_GRAMMAR_ROW_STEPS. All memory is taken by grammar_rows_init.
 * Not here: the lexer's place (grammar_run), the trie (grammar_mask).
 *
 * Rows are a stack. Row n + 1 is made from row n and the lexemes that ended, so a row that was made
 * from the same row for the same lexemes is used again. A rule that matched the empty text in a row
 * is noted, so that items that wait for it later in the same row go on at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/grammar/grammar_form.h"
#include "engine/grammar/grammar_seen.h"

/* A dotted rule: the dot, the row where the rule began, and the count that it was given. */
struct grammar_item {
    uint32_t dot;
    uint32_t row;
    uint64_t count;
};

/* Its items: first those that wait for a rule, then those that wait for a lexeme or a token. */
struct grammar_row {
    uint32_t first;
    uint32_t rules;
    uint32_t ends;   /* items that wait for a lexeme or a token */
    uint32_t start;  /* lexer state in which its lexemes begin */
    uint32_t reason; /* lexer state whose lexemes ended, or the token | GRAMMAR_ROWS_TOKEN */
    bool accepts;    /* the text up to here is whole */
    bool has_tokens; /* an item waits for a control token */
};

#define GRAMMAR_ROWS_TOKEN ((uint32_t)1 << 31)

enum grammar_rows_result {
    GRAMMAR_ROWS_OK,
    GRAMMAR_ROWS_NONE, /* no item waits for that */
    GRAMMAR_ROWS_FULL, /* over a limit */
};

struct grammar_rows {
    const struct grammar *grammar;
    struct grammar_item *items;
    struct grammar_row *rows;
    struct grammar_seen seen;
    uint32_t item_max;   /* items of the arena */
    uint32_t row_count;  /* rows that are made; those beyond the place of a run may be used again */
    uint64_t steps;      /* of all rows that were made */
    uint16_t *slots;     /* finds items of the row that is being made */
    uint32_t slot_count; /* in use, a power of two */
    uint64_t *marks;     /* a bit for each lexeme */
    uint32_t *lexemes;   /* scratch: the lexemes of a row */
    uint32_t *remap;     /* scratch of grammar_rows_compact */
};

/* Makes row 0. NO_MEMORY, or LIMIT when row 0 is too large. */
enum status grammar_rows_init(struct grammar_rows *rows, const struct grammar *grammar);
/* Makes row 0 again and drops all others. False when row 0 is too large. */
bool grammar_rows_restart(struct grammar_rows *rows);
void grammar_rows_deinit(struct grammar_rows *rows);

/* Makes row `from` + 1, for the lexemes that end in lexer state `state`. `text` is the hash of
 * their bytes. */
enum grammar_rows_result grammar_rows_push(struct grammar_rows *rows, uint32_t from, uint32_t state,
                                           uint64_t text);
/* The same for a control token. */
enum grammar_rows_result grammar_rows_push_token(struct grammar_rows *rows, uint32_t from,
                                                 uint32_t token);

/* Whether less than a quarter of the arena is free above row `top`. */
bool grammar_rows_is_tight(const struct grammar_rows *rows, uint32_t top);
/* Removes the rows below `oldest` that no item of a row from `oldest` on can reach, and all rows
 * above `top`. Returns by how much the numbers of rows from `oldest` on went down. */
uint32_t grammar_rows_compact(struct grammar_rows *rows, uint32_t oldest, uint32_t top);
