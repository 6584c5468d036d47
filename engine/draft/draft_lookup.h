/* draft_lookup: proposes the tokens that followed the same words earlier in the sequence (prompt
 * lookup).
 *
 * Owns:     an index of where short runs of the sequence's tokens ended.
 * Thread:   engine thread only.
 * Cost:     O(1) for each token that is new since the last call; no allocation.
 * Not here: whether to draft at all (step_draft), verification (step_token).
 *
 *     tokens   a b c d e f … a b c │            count
 *              └─────┘ d e f       └─ d e f     the draft: what followed the last "a b c"
 *
 * Only the sequence's own tokens are examined: neither the drafts nor their time tell anything
 * about other sequences.
 */
#pragma once

#include <stdint.h>

enum {
    /* Draft tokens at once: four rows read the weights once and take 1.1 to 1.2 times as long as
     * one row (measured on prototypes, SmolLM2-135M); eight rows take 1.7 times as long. */
    DRAFT_LOOKUP_MOST = 3,
    /* Lengths of the runs that are compared, the longer first: fewer of them match by chance. */
    DRAFT_LOOKUP_LONG = 3,
    DRAFT_LOOKUP_SHORT = 2,
    /* Entries for each of the two lengths; in a longer sequence newer runs replace older ones. */
    DRAFT_LOOKUP_ENTRIES = 4096,
};

struct draft_lookup {
    /* [2][DRAFT_LOOKUP_ENTRIES] position after the last run with this hash; 0 = none. */
    uint32_t *entries;
    uint32_t indexed; /* it has the runs that end before this position */
};

/* Elements of `entries`, which the caller allocates. */
enum { DRAFT_LOOKUP_NUMBERS = 2 * DRAFT_LOOKUP_ENTRIES };

/* Empties the index for another sequence. */
void draft_lookup_reset(struct draft_lookup *lookup);

/* Writes at most `most` (≤ DRAFT_LOOKUP_MOST) draft tokens to tokens[count …], which needs room for
 * them; returns how many. Between two resets tokens[0 … count) may only grow. */
uint32_t draft_lookup_guess(struct draft_lookup *lookup, uint32_t *tokens, uint32_t count,
                            uint32_t most);
