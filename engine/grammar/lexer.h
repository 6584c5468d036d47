/* lexer: which lexemes are open after some bytes: a table that is filled as it is used.
 *
 *     state = sorted pairs (lexeme, what is left of its regex), interned
 *     next[state][class of the byte] = state, LEXER_DEAD, or 0 when it is not known yet
 *
 * Owns:     states, table and classes of bytes. It borrows the regexes, which nobody else may use
 *           from lexer_new on.
 * Thread:   any number at once. An entry is written once, with release, under the lexer's lock; a
 *           known entry is read without it.
 * Cost:     a known step is two loads that depend on each other. An unknown one derives the regexes
 *           of the state, at most LIMIT_GRAMMAR_FILL_STEPS steps.
 * Not here: which lexemes a place allows (grammar_rows), when a lexeme ends (grammar_place).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits_grammar.h"
#include "engine/grammar/regex.h"

enum {
    LEXER_UNKNOWN = 0, /* only in the table */
    LEXER_DEAD = 1,    /* no lexeme goes on; a state like others, without successors or ends */
    LEXER_CHUNK = 32,  /* states that are allocated together */
    LEXER_CHUNKS = LIMIT_GRAMMAR_STATES / LEXER_CHUNK,
};
#define LEXER_FULL UINT32_MAX /* a limit was met */

struct lexer_lexeme {
    regex_node_id regex; /* does not match the empty text */
    bool is_lazy;        /* it ends at its first match */
};

struct lexer_pair {
    uint32_t lexeme;
    regex_node_id node;
};

enum { LEXER_STATE_LAZY = 1, LEXER_STATE_FINAL = 2 };

/* Immutable once its number is known. */
struct lexer_state {
    const struct lexer_pair *pairs; /* sorted by lexeme */
    const uint32_t *ends;           /* lexemes that match up to here, sorted */
    uint32_t pair_count;
    uint32_t end_count;
    uint32_t flags;
    uint32_t next_in_bucket;
    struct regex_run
        run; /* `chars` is for lexer_chars; the longest of a pair; none where a lexeme is lazy */
};

struct lexer_fill; /* what filling works with */

struct lexer {
    uint8_t class_of[256];
    uint32_t classes;
    _Atomic(_Atomic(uint32_t) *) next[LEXER_CHUNKS]; /* [state in chunk][class] */
    struct lexer_state *states[LEXER_CHUNKS];
    struct lexer_fill *fill;
};

/* Copies `lexemes`. From here on the pool's fuel is that of each step. NO_MEMORY or LIMIT. */
enum status lexer_new(struct regex_pool *regexes, const struct lexer_lexeme *lexemes,
                      uint32_t count, struct lexer **out);
void lexer_free(struct lexer *lexer); /* NULL is allowed */
/* OK, or the first limit that a step or start met. What is known stays usable. */
enum status lexer_status(struct lexer *lexer);
/* With the regexes. From any thread. */
size_t lexer_bytes(const struct lexer *lexer);
/* Steps that filling has taken so far, of all threads: what a mask is charged for them. */
uint64_t lexer_spent(const struct lexer *lexer);
uint32_t lexer_state_count(struct lexer *lexer);

/* The state in which these lexemes begin; `lexemes` rises. LEXER_DEAD for none. LIMIT, NO_MEMORY.
 * */
enum status lexer_start(struct lexer *lexer, const uint32_t *lexemes, uint32_t count,
                        uint32_t *state);

/* Behind lexer_step: fills the entry. */
uint32_t lexer_fill(struct lexer *lexer, uint32_t state, uint32_t class);

static inline _Atomic(uint32_t) *lexer_row(const struct lexer *lexer, uint32_t state)
{
    _Atomic(uint32_t) *chunk =
        atomic_load_explicit(&lexer->next[state / LEXER_CHUNK], memory_order_relaxed);
    return chunk + (size_t)(state % LEXER_CHUNK) * lexer->classes;
}

/* The state behind a byte: LEXER_DEAD when no lexeme goes on, LEXER_FULL when a limit was met. */
static inline uint32_t lexer_step(struct lexer *lexer, uint32_t state, uint8_t byte)
{
    uint32_t class = lexer->class_of[byte];
    uint32_t next = atomic_load_explicit(lexer_row(lexer, state) + class, memory_order_acquire);
    return __builtin_expect(next != LEXER_UNKNOWN, 1) ? next : lexer_fill(lexer, state, class);
}

static inline const struct lexer_state *lexer_state_at(const struct lexer *lexer, uint32_t state)
{
    return &lexer->states[state / LEXER_CHUNK][state % LEXER_CHUNK];
}

/* Lexemes that end here if the next byte does not continue any; sorted. They live as long as the
 * lexer. */
static inline const uint32_t *lexer_ends(const struct lexer *lexer, uint32_t state, uint32_t *count)
{
    const struct lexer_state *at = lexer_state_at(lexer, state);
    *count = at->end_count;
    return at->ends;
}

static inline bool lexer_is_end(const struct lexer *lexer, uint32_t state)
{
    return lexer_state_at(lexer, state)->end_count != 0;
}

/* A lazy lexeme ends here at once, and with it the lexemes that match the same bytes. */
static inline bool lexer_is_lazy(const struct lexer *lexer, uint32_t state)
{
    return (lexer_state_at(lexer, state)->flags & LEXER_STATE_LAZY) != 0;
}

/* No byte continues the lexeme: it ends here at once. Lazy states are final. */
static inline bool lexer_is_final(const struct lexer *lexer, uint32_t state)
{
    return (lexer_state_at(lexer, state)->flags & LEXER_STATE_FINAL) != 0;
}

/* The class of which texts of at most `max` characters stay in the lexeme (token_class). `is_exact`
 * says that all longer texts of the class are dead. */
static inline struct regex_run lexer_run(const struct lexer *lexer, uint32_t state)
{
    return lexer_state_at(lexer, state)->run;
}

/* The classes of lexer_run: large ones that lexemes repeat, at most LIMIT_TOKEN_CLASSES. They do
 * not change. */
uint32_t lexer_char_count(const struct lexer *lexer);
const struct regex_range *lexer_chars(const struct lexer *lexer, uint32_t chars, uint32_t *count);
