/* answer_grammar: the grammar of an answer that may or must call tools, in the model's own format.
 *
 *     tools and choice ── _begin, _tool ──► source ── _compile ──► grammar
 *
 * Owns:     nothing; the grammar belongs to the caller.
 * Thread:   any.
 * Cost:     bounded by the fuel.
 * Not here: schemas of arguments (engine/schema), reading the answer (answer_split).
 *
 *   NONE      text without a mark that opens a call
 *   AUTO      text and calls; from the mark on, name and arguments are constrained
 *   REQUIRED  calls alone, behind reasoning if the model has any
 *
 * Grammar and splitter read the same row of answer_formats.def, so what is constrained is what is
 * split. Where answers may hold a call without its mark, such a call is constrained, too.
 */
#pragma once

#include "config/base/slice.h"
#include "engine/answer/answer_format.h"
#include "engine/schema/constraint.h"

struct grammar;
struct grammar_fuel;

enum answer_choice { ANSWER_CHOICE_NONE, ANSWER_CHOICE_AUTO, ANSWER_CHOICE_REQUIRED };

/* Whether calls can be constrained as this model writes them. `has_text`: beside text, which marks
 * around several calls do not allow yet. */
bool answer_grammar_can(const struct answer_model *model, bool has_text);

/* Write the source, which is the key of the grammar in a cache. `is_single`: at most one call. */
void answer_grammar_begin(struct buffer *source, enum answer_choice choice, bool is_single);
/* A tool that may be called, with its place in the request; an empty schema is any object. */
void answer_grammar_tool(struct buffer *source, uint32_t index, struct slice name, bool is_strict,
                         struct slice schema);

/* As constraint_compile. A schema that cannot be compiled is an error if the tool is strict; else
 * its arguments are any object, and bit `index` of the grammar's notes is 1. Paths in errors begin
 * with the tool: "[0].function.parameters". */
enum status answer_grammar_compile(const struct answer_model *model, struct slice source,
                                   const struct constraint_options *options,
                                   struct grammar_fuel *fuel, struct grammar **out,
                                   struct constraint_error *error);
