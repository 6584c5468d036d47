/* answer_values: grammars of arguments that are not written as one JSON object: tags around
 * parameters (XML), and Gemma's own syntax of values.
 *
 * Owns:     nothing; the rules belong to the builder.
 * Thread:   any.
 * Cost:     bounded by the fuel of the builder.
 * Not here: names and marks around arguments (answer_grammar), reading them (answer_body_xml,
 *           answer_body_gemma), schemas of JSON values (engine/schema).
 *
 *     <parameter=key>            A parameter that is a string by its schema is written as it is;
 *     text                       each other one as JSON, under its schema.
 *     </parameter>
 *
 *     key:<|"|>text<|"|>,n:[1]   Strings stand between marks; scalars are JSON.
 *
 * Parameters come in the order of `properties`. Where a schema says more than these forms hold (a
 * pattern of a bare string, a reference between Gemma's values), a strict tool is refused, and
 * other tools may write any value of the type there. If the schema itself is more than a list of
 * properties, its arguments are any.
 */
#pragma once

#include "engine/grammar/grammar.h"
#include "engine/schema/constraint.h"

struct answer_values {
    struct grammar_builder *builder;
    const struct constraint_options *options; /* `strict` is the tool's */
    regex_node_id blanks;                     /* what may stand between tags */
    /* Gemma's mark around a string: its control token, or VOCAB_NONE and its text. */
    uint32_t quote_token;
    const char *quote_text;
};

/* The parameters of a call, from <parameter= of the first to </parameter> of the last. An empty
 * schema allows any. UNSUPPORTED and INVALID name the path in the schema. */
enum status answer_values_xml(const struct answer_values *values, struct slice schema,
                              grammar_symbol *out, struct constraint_error *error);
/* The arguments of a call behind the opening brace, with the closing one. */
enum status answer_values_gemma(const struct answer_values *values, struct slice schema,
                                grammar_symbol *out, struct constraint_error *error);
