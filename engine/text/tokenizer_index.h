/* tokenizer_index: from the bytes of a token to its id.
 *
 * Owns:     a hash table of ids.
 * Thread:   read-only once it is filled.
 * Cost:     one hash of the bytes a look-up, and about one comparison.
 * Not here: ids → bytes (vocab).
 */
#pragma once

#include "config/base/slice.h"
#include "engine/models/vocab.h"

struct tokenizer_index {
    const struct vocab *vocab;
    uint32_t *slots; /* id + 1; 0 = free; at most half full */
    size_t mask;
};

/* Takes the normal tokens, and the unused ones if asked for. Of several with the same bytes the
 * lowest id counts. NO_MEMORY. */
enum status tokenizer_index_init(struct tokenizer_index *index, const struct vocab *vocab,
                                 bool takes_unused);
void tokenizer_index_deinit(struct tokenizer_index *index);
/* VOCAB_NONE when no token has these bytes. */
uint32_t tokenizer_index_find(const struct tokenizer_index *index, struct slice bytes);
