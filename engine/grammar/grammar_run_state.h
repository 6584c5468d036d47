/* grammar_run_state: what a run is made of, for the files that work on it.
 *
 * Owns:     the layout. grammar_run.c makes and frees it.
 * Thread:   that of the run.
 * Not here: rows (grammar_rows), places (grammar_place).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits_grammar.h"
#include "engine/grammar/grammar_place.h"
#include "engine/grammar/token_class.h"
#include "engine/grammar/token_trie.h"

/* The state and row behind a node of the trie; the node's depth is the index. */
struct grammar_walk_step {
    uint32_t state;
    uint32_t row;
};

enum grammar_walk_way {
    GRAMMAR_WALK_NONE,  /* no walk is under way */
    GRAMMAR_WALK_WHOLE, /* the trie, to keep mask and exits */
    GRAMMAR_WALK_EXITS, /* the exits of a kept mask */
    GRAMMAR_WALK_CLASS, /* the tokens that a class leaves out */
};

/* A mask that is being made. */
struct grammar_walk {
    enum grammar_walk_way way;
    uint32_t node;        /* next node */
    uint32_t node_end;    /* where this part of the walk ends */
    uint32_t walked;      /* nodes so far */
    uint32_t next_exit;   /* of `kept` */
    uint32_t exit_count;  /* found so far; over LIMIT_GRAMMAR_EXITS: nothing is kept */
    uint32_t state;       /* of the lexer where the mask begins */
    uint64_t rows_before; /* steps of rows that were made before the mask */
    const struct grammar_kept_mask *kept; /* held */
    const struct token_class *class;      /* the same */
    uint32_t *mask;                       /* tokens that stay in the lexeme, to be kept */
    struct grammar_exit *exits;
    struct grammar_walk_step steps[TOKEN_TRIE_DEPTH + 1];
};

struct grammar_run {
    struct grammar *grammar;
    const struct token_trie *trie;
    struct token_classes *classes; /* or NULL */
    struct grammar_rows rows;
    struct grammar_place place;
    struct grammar_place back[LIMIT_GRAMMAR_BACK]; /* places before the last tokens, a ring */
    uint64_t tokens;
    uint32_t backs; /* of `back`, those that can be gone back to */
    bool is_too_complex;
    bool is_end_known; /* the next two hold for the place */
    bool accepts;
    bool is_over;
    struct grammar_walk walk;
};

/* Of grammar_run.c, for masks and forced text. */

/* The hash of the open lexeme's bytes above node `at` of a walk that began at `place`, at the node
 * of depth `depth`; 0 in grammars that do not compare texts. */
uint64_t grammar_run_walk_text(const struct grammar_run *run, const struct token_trie_node *nodes,
                               uint32_t at, uint32_t depth, const struct grammar_place *place);
/* Ends a walk that is under way. */
void grammar_run_drop_walk(struct grammar_run *run);
/* Before rows are made above the run's place: drops the walk, and removes rows that nothing can
 * reach if rows are becoming scarce. Finds out whether the text may end here. */
void grammar_run_prepare(struct grammar_run *run);
