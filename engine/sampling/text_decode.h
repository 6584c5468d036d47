/* text_decode: the bytes of tokens → text of whole UTF-8 sequences, the one way to decode them.
 *
 * Owns:     the unfinished sequence at the end of what it was given: at most three bytes.
 * Thread:   one at a time; a decoder shares nothing with another.
 * Cost:     O(bytes); no allocation.
 * Not here: stop strings (text_stream), ids → bytes (vocab).
 *
 * An echoed prompt, an answer, /v1/detokenize and the offsets of tokens in a text all come from
 * here, so that they agree: the text does not depend on how its bytes are cut into tokens. Bytes
 * that no later byte can complete to a sequence become U+FFFD, one for each maximal part of a
 * sequence (Unicode 15, section 3.9, "substitution of maximal subparts", as browsers do it).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

enum {
    TEXT_DECODE_TAIL_BYTES = 4,
    /* The most that one push writes: every byte became U+FFFD (3 bytes each). */
    TEXT_DECODE_BYTES = 3 * (LIMIT_TOKEN_BYTES + TEXT_DECODE_TAIL_BYTES),
};

/* Zero it to begin. */
struct text_decode {
    uint64_t characters; /* code points given out so far */
    uint32_t tail_length;
    char tail[TEXT_DECODE_TAIL_BYTES];
};

/* Begins in the middle of a text: `last` are the last bytes of what stands before (three are
 * enough). Character 0 is the one that is unfinished there, or else the next one. */
void text_decode_init(struct text_decode *decode, struct slice last);

/* Where the text of `bytes`, which are pushed next, begins: how many characters stand before the
 * character that their first byte belongs to. Bytes that show nothing stand at the text's end. */
uint64_t text_decode_offset(const struct text_decode *decode, struct slice bytes);

/* Takes the bytes of one token (≤ LIMIT_TOKEN_BYTES) and writes the text that is whole now to
 * `out`; returns its length. */
size_t text_decode_push(struct text_decode *decode, struct slice bytes,
                        char out[TEXT_DECODE_BYTES]);

/* The text ended: an unfinished sequence is U+FFFD; returns 0 or 3. */
size_t text_decode_flush(struct text_decode *decode, char out[TEXT_DECODE_BYTES]);
