/* tokenizer_presplit: cuts a text into the pieces that byte-pair merging works on.
 *
 * Owns:     the compiled patterns of one row of presplits.def (PCRE2).
 * Thread:   read-only once it is made; a cut belongs to one caller.
 * Cost:     linear in the text, for any text. A match may backtrack LIMIT_PRESPLIT_BACKTRACKS times
 *           plus four times for each byte that is left; beyond that it fails.
 * Not here: what becomes of a piece (tokenizer).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

struct tokenizer_presplit;

/* UNSUPPORTED when presplits.def has no row of that name; the message names it. NO_MEMORY. */
enum status tokenizer_presplit_create(struct tokenizer_presplit **out, struct slice name);
void tokenizer_presplit_destroy(struct tokenizer_presplit *presplit);
bool tokenizer_presplit_ignores_merges(const struct tokenizer_presplit *presplit);
bool tokenizer_presplit_is_nfc(const struct tokenizer_presplit *presplit);

/* Cuts one text after the other. */
struct tokenizer_presplit_cut;
enum status tokenizer_presplit_begin(struct tokenizer_presplit_cut **out,
                                     const struct tokenizer_presplit *presplit);
void tokenizer_presplit_end(struct tokenizer_presplit_cut *cut);
/* Begins a text, which is valid UTF-8: PCRE2 does not check that, because a check at each match
 * would be quadratic. */
void tokenizer_presplit_start(struct tokenizer_presplit_cut *cut, struct slice text);
/* Returns the next piece; its length is 0 behind the last one. All pieces together are the text.
 * LIMIT when a match backtracks too often; NO_MEMORY. */
enum status tokenizer_presplit_next(struct tokenizer_presplit_cut *cut, struct slice *piece);
/* Matches so far, for tests of the cost. */
uint64_t tokenizer_presplit_steps(const struct tokenizer_presplit_cut *cut);
