/* tokenizer_cache: the ids of pieces that one text has had already: most words of a text repeat.
 *
 * Owns:     a table of short pieces and their ids, for one text.
 * Thread:   one caller.
 * Cost:     one look at a slot; a new piece replaces the slot's old one, so no text makes it slow.
 * Not here: how ids are made (tokenizer, tokenizer_spm).
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"

enum {
    TOKENIZER_CACHE_BYTES = 30, /* of a piece; with its ids a slot is a line of 64 bytes */
    TOKENIZER_CACHE_IDS = 8,
    TOKENIZER_CACHE_SLOTS = 4096,
    TOKENIZER_CACHE_TEXT = 16 * 1024, /* bytes of a text for which a table is worth its memory */
};

struct tokenizer_cache {
    struct tokenizer_cache_slot {
        uint8_t length; /* 0 = free */
        uint8_t count;
        char bytes[TOKENIZER_CACHE_BYTES];
        uint32_t ids[TOKENIZER_CACHE_IDS];
    } * slots; /* NULL when the text is short, or there is no memory for the table */
};

void tokenizer_cache_init(struct tokenizer_cache *cache, size_t text_length);
void tokenizer_cache_deinit(struct tokenizer_cache *cache);

/* NULL when the piece is not there. */
const struct tokenizer_cache_slot *tokenizer_cache_find(const struct tokenizer_cache *cache,
                                                        struct slice piece);
/* Does nothing when the piece or its ids are too many for a slot. */
void tokenizer_cache_keep(struct tokenizer_cache *cache, struct slice piece, const uint32_t *ids,
                          size_t count);
