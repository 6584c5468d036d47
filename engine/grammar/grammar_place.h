/* grammar_place: where a text stands: the row, and the open lexeme's state.
 *
 * Owns:     nothing; rows belong to grammar_rows.
 * Thread:   that of the rows.
 * Cost:     a look-up a byte, and a row for each lexeme that ends.
 * Not here: tokens and checkpoints (grammar_run), the trie (grammar_mask).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/hash.h"
#include "engine/grammar/grammar_rows.h"

struct grammar_place {
    uint32_t row;
    uint32_t state; /* of the lexer */
    uint32_t open;  /* bytes of the open lexeme, at most UINT32_MAX */
    uint64_t text;  /* hash of these bytes; 0 for none */
};

/* The hash of a text and one more byte. */
static inline uint64_t grammar_place_text(uint64_t text, uint8_t byte)
{
    return hash_mix64(text * 257 + byte + 1);
}

/* Before the first byte. */
struct grammar_place grammar_place_first(const struct grammar_rows *rows);

/* Takes one byte. The place is undefined unless the result is OK. */
enum grammar_rows_result grammar_place_step(struct grammar_rows *rows, struct grammar_place *place,
                                            uint8_t byte);
/* Ends the open lexeme; NONE where it cannot end. */
enum grammar_rows_result grammar_place_close(struct grammar_rows *rows,
                                             struct grammar_place *place);
/* Takes a control token. */
enum grammar_rows_result grammar_place_token(struct grammar_rows *rows, struct grammar_place *place,
                                             uint32_t token);
