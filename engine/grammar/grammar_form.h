/* grammar_form: what a compiled grammar is made of, for the files that parse with it.
 *
 * Owns:     the layout. grammar.c makes and frees it.
 * Thread:   read-only after grammar_finish, but for the lexer's table and the kept masks, which
 *           have locks of their own, and the counts of references.
 * Not here: how it is built (grammar), rows (grammar_run).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/grammar/grammar_kept.h"
#include "engine/grammar/grammar_types.h"
#include "engine/grammar/lexer.h"

/* A symbol is a kind in the two highest bits and an index. In `dots` an index of kind END is the
 * rule that ends there. */
enum grammar_kind { GRAMMAR_END = 0, GRAMMAR_RULE = 1, GRAMMAR_LEXEME = 2, GRAMMAR_TOKEN = 3 };
enum { GRAMMAR_KIND_SHIFT = 30, GRAMMAR_INDEX_MASK = (1 << GRAMMAR_KIND_SHIFT) - 1 };

static inline enum grammar_kind grammar_kind_of(uint32_t symbol)
{
    return (enum grammar_kind)(symbol >> GRAMMAR_KIND_SHIFT);
}

static inline uint32_t grammar_index_of(uint32_t symbol)
{
    return symbol & GRAMMAR_INDEX_MASK;
}

static inline uint32_t grammar_symbol_of(enum grammar_kind kind, uint32_t index)
{
    return (uint32_t)kind << GRAMMAR_KIND_SHIFT | index;
}

/* An alternative of a rule: its symbols stand in `dots` from `dot` on, up to an END. */
struct grammar_alternative {
    uint32_t dot;
    uint32_t ask; /* enum grammar_ask */
    uint64_t value;
};

struct grammar_alternatives {
    uint32_t first;
    uint32_t count;
};

struct grammar_passing {
    uint64_t value;
    uint32_t pass; /* enum grammar_pass */
};

struct grammar {
    atomic_uint references;
    struct grammar_alternatives *rules; /* rule 0 is the start */
    struct grammar_alternative *alternatives;
    uint32_t *dots;                  /* the symbol behind each dot */
    struct grammar_passing *passing; /* of each dot; NULL when no rule is counted */
    uint32_t rule_count;
    uint32_t alternative_count;
    uint32_t dot_count;
    uint32_t lexeme_count;
    bool has_lists; /* some lexeme is a GRAMMAR_NEW */
    bool *is_list;  /* of each rule: its count stands for a list; NULL without lists */
    size_t bytes;   /* of the arrays */
    uint64_t notes[GRAMMAR_NOTES];
    struct regex_pool *regexes;
    struct lexer *lexer;
    struct grammar_kept *kept;
};

static inline uint64_t grammar_pass_count(const struct grammar *grammar, uint32_t dot,
                                          uint64_t count)
{
    if (grammar->passing == NULL)
        return 0;
    const struct grammar_passing *passing = &grammar->passing[dot];
    switch ((enum grammar_pass)passing->pass) {
    case GRAMMAR_PASS_OR:
        return count | passing->value;
    case GRAMMAR_PASS_ADD:
        return count > UINT64_MAX - passing->value ? UINT64_MAX : count + passing->value;
    case GRAMMAR_PASS_LIST: /* grammar_rows knows the list */
    case GRAMMAR_PASS_VALUE:
        break;
    }
    return passing->value;
}

static inline bool grammar_answer(const struct grammar_alternative *alternative, uint64_t count)
{
    switch ((enum grammar_ask)alternative->ask) {
    case GRAMMAR_ALWAYS:
        return true;
    case GRAMMAR_CLEAR:
        return (count & alternative->value) == 0;
    case GRAMMAR_SET:
        return (count & alternative->value) == alternative->value;
    case GRAMMAR_LEAST:
        return count >= alternative->value;
    case GRAMMAR_MOST:
        return count <= alternative->value;
    case GRAMMAR_BITS:
        return (uint64_t)__builtin_popcountll(count) >= alternative->value;
    case GRAMMAR_BITS_MOST:
        return (uint64_t)__builtin_popcountll(count) <= alternative->value;
    }
    return false;
}
