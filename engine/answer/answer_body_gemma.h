/* answer_body_gemma: reads calls in Gemma's own syntax of values, and makes JSON of them.
 *
 *     call:name{city:<|"|>Paris<|"|>,days:3,units:[<|"|>C<|"|>]}
 *
 * Owns:     nothing; the state is the splitter's.
 * Thread:   one at a time.
 * Cost:     O(1) a byte.
 * Not here: marks around calls (answer_split), other bodies.
 *
 * Keys get quotes. The mark <|"|> opens and closes a string. Everything else is JSON already.
 */
#pragma once

#include "engine/answer/answer_emit.h"
#include "engine/answer/answer_json.h"
#include "engine/answer/answer_step.h"

enum { ANSWER_GEMMA_WORD_BYTES = 80 };

struct answer_body_gemma {
    uint8_t state;
    bool is_named;
    uint8_t depth;
    uint64_t objects; /* bit i: level i is an object, else an array */
    uint32_t word_length;
    char word[ANSWER_GEMMA_WORD_BYTES]; /* "call:" and the name */
};

void answer_body_gemma_begin(struct answer_body_gemma *gemma);
enum answer_step answer_body_gemma_byte(struct answer_body_gemma *gemma, struct answer_emit *emit,
                                        char byte);
/* The mark of a string has come. */
enum answer_step answer_body_gemma_quote(struct answer_body_gemma *gemma, struct answer_emit *emit);
