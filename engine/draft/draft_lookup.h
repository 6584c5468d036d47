/* draft_lookup: guesses what a text says next from where it has said the same before.
 *
 * Owns:     an index of where the text's own short runs of tokens ended.
 * Thread:   engine thread only.
 * Cost:     O(1) a token that is new since the last guess; no allocation.
 * Not here: whether to guess at all (step_draft), what becomes of a guess (step_token).
 *
 *     tokens   a b c d e f … a b c │            count
 *              └─────┘ d e f       └─ d e f     the guess: what came behind the last "a b c"
 *
 * One text's tokens alone are looked at: of others nothing is found, in tokens or in time.
 */
#pragma once

#include <stdint.h>

enum {
    /* Guesses at once: four rows read the weights once, and take 1.1 to 1.2 times as long as one
     * (measured on prototypes, SmolLM2-135M); eight take 1.7 times. */
    DRAFT_LOOKUP_MOST = 3,
    /* Runs that are compared: the longer first, since fewer of them are there by chance. */
    DRAFT_LOOKUP_LONG = 3,
    DRAFT_LOOKUP_SHORT = 2,
    /* For each of the two lengths; of a longer text the older runs are forgotten by and by. */
    DRAFT_LOOKUP_ENTRIES = 4096,
};

struct draft_lookup {
    /* [2][DRAFT_LOOKUP_ENTRIES] the token behind the last run of this hash; 0 = none. */
    uint32_t *entries;
    uint32_t indexed; /* runs that end before this token are in it */
};

/* Numbers of `entries`, which the caller allocates. */
enum { DRAFT_LOOKUP_NUMBERS = 2 * DRAFT_LOOKUP_ENTRIES };

/* Another text begins. */
void draft_lookup_reset(struct draft_lookup *lookup);

/* Writes at most `most` (≤ DRAFT_LOOKUP_MOST) guesses to tokens[count …], which has room for them;
 * how many. tokens[0 … count) only ever grows between two resets. */
uint32_t draft_lookup_guess(struct draft_lookup *lookup, uint32_t *tokens, uint32_t count,
                            uint32_t most);
