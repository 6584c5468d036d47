/* grammar: rules over lexemes and control tokens, and the immutable form that runs parse with.
 *
 *     builder: lexemes, rules ── grammar_finish ──► struct grammar ◄── any number of grammar_run
 *
 * Owns:     a builder owns its regexes and rules. A grammar owns all that it is made of: compiled
 *           rules, the lexer with its table, and kept masks. It has a reference count.
 * Thread:   a builder has one thread. A grammar is used by any number of threads; only the lexer's
 *           table and the kept masks grow, and each of them has its own lock.
 * Cost:     a step of grammar_fuel for each symbol that is added or looked at.
 * Not here: regexes (regex), the lexer (lexer), parsing (grammar_run), masks (grammar_mask).
 *
 * What a grammar accepts. The lexer cuts the text into lexemes, and the rules say in which order
 * lexemes follow each other. At each place the lexer looks only for the lexemes that the rules
 * allow there. A greedy lexeme takes the longest match: it ends where the next byte cannot continue
 * any allowed lexeme. A lazy lexeme ends at its first match. If several allowed lexemes match the
 * same bytes, all of them count. The lexer does not go back: in `"a" "b" | "abc"` the text "abd" is
 * lost after "ab". A front end makes lexemes whose ends one byte decides.
 *
 * A lexeme never matches the empty text. grammar_lexeme makes a lexeme optional if its regex can.
 *
 * A failure of a builder is latched: later calls do nothing and return GRAMMAR_NOTHING, and
 * grammar_finish returns it. So a front end checks once, at the end. Long loops of a front end look
 * at grammar_builder_status.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/slice.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/grammar_types.h"
#include "engine/grammar/regex.h"

struct grammar;
struct grammar_builder;

/* `fuel` is borrowed and must outlive the builder. */
enum status grammar_builder_new(struct grammar_fuel *fuel, struct grammar_builder **out);
void grammar_builder_free(struct grammar_builder *builder); /* NULL is allowed */
/* The first failure of the builder or of its regexes: LIMIT, CANCELLED or NO_MEMORY. */
enum status grammar_builder_status(struct grammar_builder *builder);
/* The pool in which lexemes are written. It belongs to the builder, later to the grammar. */
struct regex_pool *grammar_builder_regexes(struct grammar_builder *builder);
struct grammar_fuel *grammar_builder_fuel(struct grammar_builder *builder);

/* The same regex and end give the same symbol. A regex that matches nothing gives GRAMMAR_NOTHING.
 */
grammar_symbol grammar_lexeme(struct grammar_builder *builder, regex_node_id regex,
                              enum grammar_end end);
/* A greedy lexeme of these bytes. The empty text gives a rule that matches the empty text. */
grammar_symbol grammar_text(struct grammar_builder *builder, struct slice text);
/* The control token with this id. It stands between lexemes and has no bytes. */
grammar_symbol grammar_token(struct grammar_builder *builder, uint32_t token);

/* A new rule without alternatives. It matches nothing until grammar_rule_add. */
grammar_symbol grammar_rule(struct grammar_builder *builder);
/* Adds the alternative "all of `symbols` in this order"; with count 0 it is the empty text. Rules
 * may refer to each other in any order. Write lists with the recursion on the left. */
void grammar_rule_add(struct grammar_builder *builder, grammar_symbol rule,
                      const grammar_symbol *symbols, size_t count);

/* Short forms of rules. */
grammar_symbol grammar_sequence(struct grammar_builder *builder, const grammar_symbol *symbols,
                                size_t count);
grammar_symbol grammar_either(struct grammar_builder *builder, const grammar_symbol *symbols,
                              size_t count);
grammar_symbol grammar_optional(struct grammar_builder *builder, grammar_symbol symbol);
/* `symbol` from `min` to `max` times, in O(log max) rules. `max` is at most GRAMMAR_REPEAT or is
 * GRAMMAR_UNBOUNDED; min > max matches nothing; `min` over GRAMMAR_REPEAT is LIMIT. */
grammar_symbol grammar_repeat(struct grammar_builder *builder, grammar_symbol symbol, uint32_t min,
                              uint32_t max);

/* Counted rules carry a number of 64 bits from a rule to the rules that it uses. Alternatives ask
 * about the number, and each use of a counted rule says how the number goes on. So one rule can say
 * "each of 64 values at most once" (a bit for each value), or "at least 3 of these properties". The
 * number is known when a rule is begun, so a text is refused at the first byte that breaks the
 * rule. Write lists of counted rules with the recursion on the right.
 *
 * A list whose items all differ has a count of another sort: it stands for the texts of the items
 * so far. `list` writes items of the lexeme `item` of kind GRAMMAR_NEW, and is begun with 0:
 *
 *     list  = item after(LIST)
 *     after = "]" | if MOST(GRAMMAR_LIST_MOST(9)): "," item after(LIST)
 *
 * Such a lexeme stands behind a greedy one. Equal values must have equal texts, and each beginning
 * of an item must have more ways to go on than there are items, or the text may come to a dead end.
 *
 * A front end sees to it that each number that can come up has an alternative that can end:
 * grammar_finish looks for rules that cannot match anything, but not at their numbers.
 *
 * A counted rule is made with grammar_rule. Its alternatives see the count that its use passes; the
 * start has 0. */
void grammar_counted_add(struct grammar_builder *builder, grammar_symbol rule,
                         struct grammar_when when, const struct grammar_use *uses, size_t count);

/* Compiles what `start` needs. On success the grammar has one reference, and of the builder nothing
 * is left but to free it; on failure `*out` is NULL.
 *   INVALID  no text can match
 *   LIMIT    over a limit of limits_grammar.h, or out of fuel
 *   CANCELLED, NO_MEMORY */
enum status grammar_finish(struct grammar_builder *builder, grammar_symbol start,
                           struct grammar **out);

/* Takes one more reference, and gives one back; the last one frees the grammar. NULL is allowed in
 * grammar_drop. */
struct grammar *grammar_hold(struct grammar *grammar);
void grammar_drop(struct grammar *grammar);

/* Bytes that it has now, with its lexer's table and kept masks. They are at most
 * LIMIT_GRAMMAR_BYTES. */
size_t grammar_bytes(const struct grammar *grammar);
/* The same, divided by the references of this moment. */
size_t grammar_part_bytes(const struct grammar *grammar);
/* Whether its lexer's table met a limit, or had no memory. Runs that need a new entry end then. */
bool grammar_is_full(const struct grammar *grammar);
/* Words that a front end leaves, before others see the grammar, for whoever uses it; 0 at first. */
void grammar_note(struct grammar *grammar, const uint64_t notes[GRAMMAR_NOTES]);
const uint64_t *grammar_notes(const struct grammar *grammar); /* [GRAMMAR_NOTES] */
uint32_t grammar_rules(const struct grammar *grammar);        /* that are left after compilation */
uint32_t grammar_lexemes(const struct grammar *grammar);      /* the same */
