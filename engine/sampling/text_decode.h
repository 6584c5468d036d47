/* text_decode: decodes the bytes of tokens to text of whole UTF-8 characters; the only decoder.
 *
 * Owns:     the unfinished character at the end of its input: at most three bytes.
 * Thread:   one at a time; a decoder shares nothing with another.
 * Cost:     O(bytes); no allocation.
 * Not here: stop strings (text_stream), ids → bytes (vocab).
 *
 * An echoed prompt, an answer, /v1/detokenize and the offsets of tokens in a text all use it, so
 * they agree: the text does not depend on how its bytes are cut into tokens. Bytes that no later
 * byte can complete to a character become U+FFFD, one for each maximal part of a UTF-8 sequence
 * (Unicode 15, section 3.9, "substitution of maximal subparts", as browsers do it).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum {
    TEXT_DECODE_TAIL_BYTES = 4,
    /* The most that one push writes: every byte becomes U+FFFD (3 bytes each). */
    TEXT_DECODE_BYTES = 3 * (LIMIT_TOKEN_BYTES + TEXT_DECODE_TAIL_BYTES),
};

/* Zero-initialise it to begin. */
struct text_decode {
    uint64_t characters; /* code points written so far */
    uint32_t tail_length;
    char tail[TEXT_DECODE_TAIL_BYTES];
};

/* Begins in the middle of a text that ends with the bytes `last` (three are enough). Character 0 is
 * the one that is unfinished there, or else the next one. */
void text_decode_init(struct text_decode *decode, struct slice last);

/* Where the text of `bytes`, which are pushed next, begins: the number of characters before the one
 * that their first byte belongs to. Empty `bytes` begin at the end of the text. */
uint64_t text_decode_offset(const struct text_decode *decode, struct slice bytes);

/* Takes the bytes of one token (≤ LIMIT_TOKEN_BYTES) and writes the characters that are complete
 * now to `out`; returns their bytes. */
size_t text_decode_push(struct text_decode *decode, struct slice bytes,
                        char out[TEXT_DECODE_BYTES]);

/* Ends the text: an unfinished character becomes U+FFFD; returns 0 or 3 bytes. */
size_t text_decode_flush(struct text_decode *decode, char out[TEXT_DECODE_BYTES]);
