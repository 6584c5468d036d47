/* grammar_run: the place of one choice of one request in its grammar.
 *
 *     tokens ─► bytes ─► lexer state ─► lexemes ─► rows of items (Earley) ─► what may come next
 *
 * Owns:     the rows, the state of the open lexeme, checkpoints of the last tokens. It holds a
 *           reference of the grammar and borrows the trie.
 * Thread:   one at a time. Runs of one grammar work on several threads at once.
 * Cost:     commit takes a look-up a byte, and a row of items for each lexeme that ends: 1 to 2 µs
 *           a token. All memory is taken by grammar_run_new; LIMIT_GRAMMAR_RUN_BYTES bounds it.
 * Not here: masks (grammar_mask), forced text (grammar_force), end tokens of a model (its vocab).
 *
 * Rows are a stack (Earley, 1970). Row n holds the dotted rules that are under way after n lexemes,
 * each with the row in which it began. A lexeme that ends pushes a row. So a place is a number of
 * rows, a lexer state and the number of open bytes, and going back is cutting the stack. When the
 * arena is full, rows that no later row can reach are removed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits_grammar.h"
#include "config/base/status.h"
#include "engine/grammar/grammar.h"
#include "engine/grammar/token_class.h"
#include "engine/grammar/token_trie.h"

struct grammar_run;

enum { GRAMMAR_RUN_BACK = LIMIT_GRAMMAR_BACK }; /* tokens that can be taken back */

/* Begins before the first token. The run takes a reference of `grammar`. NO_MEMORY; LIMIT when the
 * first row is over a limit. */
enum status grammar_run_new(struct grammar *grammar, const struct token_trie *trie,
                            struct grammar_run **out);
/* From now on masks use these classes, which are of the same trie and outlive the run. */
void grammar_run_use_classes(struct grammar_run *run, struct token_classes *classes);
void grammar_run_free(struct grammar_run *run); /* NULL is allowed */
/* Back to before the first token. A run is replayed by committing its tokens again. */
void grammar_run_reset(struct grammar_run *run);

/* Returns whether the grammar allows the token next, and if so takes it. A token that is refused
 * changes nothing. A token without bytes in the trie is a control token and is allowed where the
 * grammar names it. End tokens of the model are not committed. When a limit is met the run becomes
 * too complex: the answer is false, and grammar_run_is_too_complex is true from then on. */
bool grammar_run_commit(struct grammar_run *run, uint32_t token);
/* The same for bytes that are no token. It makes one checkpoint, as a token does. */
bool grammar_run_commit_bytes(struct grammar_run *run, struct slice bytes);
/* Takes back the last `tokens` tokens, at most GRAMMAR_RUN_BACK and at most those committed. */
void grammar_run_back(struct grammar_run *run, uint32_t tokens);
/* The same for tokens that were only tried: a limit that they or their masks met does not make the
 * run too complex. Before them the run was not. */
void grammar_run_give_up(struct grammar_run *run, uint32_t tokens);
/* Tokens that grammar_run_back can take back now. */
uint32_t grammar_run_backs(const struct grammar_run *run);

/* Whether the text so far is whole, so that the answer may end here. */
bool grammar_run_accepts(struct grammar_run *run);
/* Whether nothing can follow: the answer must end here. It is also false where the open lexeme has
 * another form than its end, and only derivatives could show that it does not go on. */
bool grammar_run_is_over(struct grammar_run *run);
bool grammar_run_is_too_complex(const struct grammar_run *run);

/* Tokens committed and not taken back. */
uint64_t grammar_run_tokens(const struct grammar_run *run);
struct grammar *grammar_run_grammar(const struct grammar_run *run);
