/* tokenizer_bpe: byte-pair merging of one piece of text, by rank.
 *
 * Owns:     the table of merges; the scratch of one caller.
 * Thread:   the table is read-only once filled; a scratch belongs to one caller.
 * Cost:     O(n log n) in the piece's bytes: each merge adds at most two candidates to a heap.
 * Not here: cutting text into pieces, special tokens (tokenizer).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

enum { TOKENIZER_BPE_NONE = UINT32_MAX };

/* (left id, right id) → (rank, id of the merged token): open addressing, at most half full. */
struct tokenizer_bpe_table {
    struct tokenizer_bpe_merge {
        uint32_t left;
        uint32_t right;
        uint32_t rank; /* TOKENIZER_BPE_NONE = the slot is free */
        uint32_t merged;
    } * slots;
    size_t mask;
};

enum status tokenizer_bpe_table_init(struct tokenizer_bpe_table *table, size_t merges_max);
void tokenizer_bpe_table_deinit(struct tokenizer_bpe_table *table);
/* Adds a merge; call it at most `merges_max` times. EXISTS when the pair has a rank already. */
enum status tokenizer_bpe_table_add(struct tokenizer_bpe_table *table, uint32_t left,
                                    uint32_t right, uint32_t rank, uint32_t merged);
/* Finds the merge of a pair; NULL when the pair does not merge. */
const struct tokenizer_bpe_merge *tokenizer_bpe_table_find(const struct tokenizer_bpe_table *table,
                                                           uint32_t left, uint32_t right);

/* The memory of one caller's merges. It is used again for each piece, and grows to the largest
 * piece. */
struct tokenizer_bpe_scratch {
    struct tokenizer_bpe_node *nodes;           /* [capacity] */
    struct tokenizer_bpe_candidate *candidates; /* [2 × capacity], a binary heap */
    size_t capacity;
    size_t candidate_count;
    uint64_t steps; /* heap moves and merges so far, for tests of the cost */
};

void tokenizer_bpe_scratch_init(struct tokenizer_bpe_scratch *scratch);
void tokenizer_bpe_scratch_deinit(struct tokenizer_bpe_scratch *scratch);

/* Merges ids[0 … count) in place, which begins with one id for each byte. It always merges the pair
 * of lowest rank, and among equal ones the leftmost. `*count` becomes the number of tokens left.
 * NO_MEMORY. */
enum status tokenizer_bpe_merge(const struct tokenizer_bpe_table *table,
                                struct tokenizer_bpe_scratch *scratch, uint32_t *ids,
                                size_t *count);
