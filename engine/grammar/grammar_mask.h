/* grammar_mask: which tokens a run allows next, a bit for each id of the vocabulary.
 *
 * Owns:     nothing; the place of an unfinished walk is in the run.
 * Thread:   that of the run. Runs of one grammar share its kept masks under a lock.
 * Cost:     4 to 5 ns for each node of the trie that is walked, a row for each lexeme that ends.
 *           Never more than the fuel of one call.
 * Not here: what is sampled (sampler), when a mask is asked for (step_mask).
 *
 * Three ways lead to the same bits:
 *   1. A lexeme that is a class of characters repeated takes the class's mask and walks the tokens
 *      that the class mask leaves out.
 *   2. A lexer state with a kept mask takes that: the tokens that stay in the open lexeme. It walks
 *      the exits, tokens in which the lexeme ends, because what may follow depends on the row.
 *   3. Otherwise the whole trie is walked, and mask and exits are kept.
 */
#pragma once

#include <stdint.h>

#include "engine/grammar/grammar_run.h"

/* Makes the masks of the character classes of the grammar's lexemes, at most LIMIT_GRAMMAR_CLASSES
 * of them, unless they are made. It takes milliseconds, so the compile thread calls it once. */
void grammar_mask_classes(struct grammar *grammar, struct token_classes *classes);

enum grammar_mask_result {
    GRAMMAR_MASK_DONE,
    GRAMMAR_MASK_SUSPENDED,   /* out of fuel; ask again, with the same `mask` */
    GRAMMAR_MASK_TOO_COMPLEX, /* a limit was met; the run cannot go on */
};

/* Writes the mask of the run's place: bit `id % 32` of word `id / 32` is 1 if the token is allowed.
 * `mask` has token_trie_mask_words words. Control tokens that the grammar names are included; end
 * tokens of the model are not: grammar_run_accepts says whether these are allowed. `fuel` is a
 * number of trie nodes and items. A suspended mask goes on where it stopped; any call that moves
 * the run drops it. The bits do not depend on fuel, on cuts or on kept masks. */
enum grammar_mask_result grammar_mask_make(struct grammar_run *run, uint32_t fuel, uint32_t *mask);
/* Steps of rows that the last mask has taken so far, or the one that is being made. The number
 * depends on the tokens of the run alone: neither fuel nor kept masks nor other runs change it. */
uint64_t grammar_mask_steps(const struct grammar_run *run);
