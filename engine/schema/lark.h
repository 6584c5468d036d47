/* lark: a grammar in Lark's language → rules and lexemes.
 *
 * Owns:     nothing; the rules belong to the builder.
 * Thread:   that of the builder.
 * Cost:     a step of fuel for each part of the grammar.
 * Not here: the text of the grammar (lark_read), regexes between slashes (regex_parse).
 *
 * A rule becomes a rule, and a string, a regex or a terminal in a rule becomes a lexeme. Lark's
 * lexer and this one differ where a text can be cut in several ways: here the longest lexeme of
 * those that the rules allow at that place is taken. A terminal that can match nothing is optional.
 * What %ignore names may stand behind each lexeme, at most LIMIT_LARK_IGNORED bytes at a time.
 */
#pragma once

#include "config/base/slice.h"
#include "engine/grammar/grammar.h"
#include "engine/schema/constraint_types.h"
#include "engine/schema/lark_read.h"

/* Finds the control tokens that a grammar names, such as "<|im_end|>". Returns false when there is
 * none of that name. */
struct lark_tokens {
    bool (*find)(const void *context, struct slice name, uint32_t *token);
    const void *context;
};

/* Sets `*start` to the rule `start`; the caller calls grammar_finish. `options` are those of %json
 * and the control tokens that are known.
 *   INVALID      the grammar is broken, or a name is not defined
 *   UNSUPPORTED  a construct that is not supported; `error` names it
 *   LIMIT, CANCELLED, NO_MEMORY */
enum status lark_build(struct grammar_builder *builder, struct slice source,
                       const struct constraint_options *options, grammar_symbol *start,
                       struct lark_error *error);
