/* guard: what keeps one choice of a request inside its grammar.
 *
 * Owns:     the place in the grammar, and the mask of the next token.
 * Thread:   prepare makes it, then the engine thread has it, and lends it to a compute thread while
 *           its mask is made. Whoever releases the ticket frees it.
 * Cost:     guard_make takes all memory that it will ever need: GUARD_BYTES and the mask.
 * Not here: making masks (grammar_mask), when one is needed (step_mask), compiling grammars
 *           (engine_constrain).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits_grammar.h"
#include "config/base/slice.h"

struct grammar;
struct grammar_run;
struct token_classes;

/* What a guard counts for in the memory of waiting requests, beside its mask: its run's arena, and
 * what a walk and a compaction of rows need beside it. */
#define GUARD_BYTES ((size_t)LIMIT_GRAMMAR_RUN_BYTES + 192 * 1024)

struct guard {
    struct grammar_run *run;
    uint32_t *mask;      /* a bit for each token */
    bool is_ready;       /* `mask` is of the run's place */
    bool is_broken;      /* the grammar became too complex: the choice must end */
    bool is_force_asked; /* forced tokens were looked for since the last sampled token */
    bool is_over;        /* with forced tokens: nothing can follow them */
    uint32_t waits;      /* steps that its row has waited for the mask */
};

/* Begins before the first token; takes a reference of the grammar. The classes, with their trie,
 * must outlive the guard. NO_MEMORY, LIMIT. */
enum status guard_make(struct guard *guard, struct grammar *grammar, struct token_classes *classes);
/* Text of the answer that the prompt has written already. False when the grammar does not allow it
 * at its beginning: then the guard is broken. */
bool guard_begin(struct guard *guard, struct slice text);
void guard_free(struct guard *guard);

/* Takes the token that was sampled under the mask, which is not ready from here on. False when a
 * limit was met: then the guard is broken. */
bool guard_take(struct guard *guard, uint32_t token);
/* The same for a token that the grammar forces. */
bool guard_take_forced(struct guard *guard, uint32_t token);
/* Whether nothing can follow. */
bool guard_is_over(struct guard *guard);
