/* grammar_kept: masks of lexer states that are kept for the next time.
 *
 * Owns:     the kept masks of one grammar: at most LIMIT_GRAMMAR_KEPT, least recently used goes.
 * Thread:   any; one lock. An entry that is held stays, whatever is put meanwhile.
 * Cost:     a look-up is a hash; a mask and its exits are allocated when they are put.
 * Not here: how a mask is made, or what its exits mean (grammar_mask).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

struct grammar_kept;

/* A token in which the open lexeme ends: the node of the trie whose byte ends it, and the lexer
 * state before that byte. */
struct grammar_exit {
    uint32_t node;
    uint32_t state;
};

/* Immutable while it is held. `mask` holds the tokens that stay in the open lexeme. */
struct grammar_kept_mask {
    const uint32_t *mask;
    const struct grammar_exit *exits;
    uint32_t exit_count;
};

enum status grammar_kept_new(struct grammar_kept **out);
void grammar_kept_free(struct grammar_kept *kept); /* NULL is allowed; nothing may be held */

/* Holds the entry of a state and the trie it was made with, or returns NULL. */
const struct grammar_kept_mask *grammar_kept_find(struct grammar_kept *kept, const void *trie,
                                                  uint32_t state);
void grammar_kept_release(struct grammar_kept *kept, const struct grammar_kept_mask *entry);

/* Copies a mask of `words` words and its exits. Does nothing when the state has an entry, when all
 * entries are held, when the entries would have more than `bytes_max` bytes, or without memory. */
void grammar_kept_put(struct grammar_kept *kept, const void *trie, uint32_t state,
                      const uint32_t *mask, uint32_t words, const struct grammar_exit *exits,
                      uint32_t exit_count, size_t bytes_max);

size_t grammar_kept_bytes(struct grammar_kept *kept);
