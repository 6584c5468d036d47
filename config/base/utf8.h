/* utf8: validity and lengths of UTF-8 sequences (RFC 3629: no surrogates, no overlong forms).
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(bytes), no allocation.
 * Not here: Unicode classes (the tokenizer asks PCRE2).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the length (1 to 4) of the valid sequence at `bytes`, or 0 when it is invalid or cut
 * short. */
size_t utf8_sequence_length(const char *bytes, size_t length);

/* Returns how many bytes at the end of a text (0 to 3) begin a sequence that more bytes could
 * complete. Invalid bytes are not counted, because nothing completes them. */
size_t utf8_incomplete_tail(const char *bytes, size_t length);

bool utf8_is_valid(const char *bytes, size_t length);

/* Writes the sequence of a code point (not a surrogate, at most U+10FFFF); returns its length. */
size_t utf8_encode(uint32_t code_point, char out[4]);

/* Returns the code point of the valid sequence at `bytes`, whose length utf8_sequence_length
 * returned. */
uint32_t utf8_decode(const char *bytes, size_t sequence_length);
