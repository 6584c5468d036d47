/* unicode_text: what Python's str methods know of characters: printable or not, and their case.
 *
 * Owns:     constant tables (unicode_text.def, made by tests/parity/jinja/unicode_text.py).
 * Thread:   any.
 * Cost:     one look through a table of some 600 rows for a character outside of ASCII.
 * Not here: classes of the tokenizers' pre-splits (PCRE2 has them).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_text_case { UNICODE_TEXT_UPPER, UNICODE_TEXT_LOWER, UNICODE_TEXT_TITLE };

/* str.isprintable() of one character. */
bool unicode_text_is_printable(uint32_t c);
/* Writes the characters that `c` becomes; returns how many, 1 to 3. The lower case of a capital
 * sigma depends on its place in a word; here it is the one inside a word. */
size_t unicode_text_change(uint32_t c, enum unicode_text_case wanted, uint32_t out[3]);
