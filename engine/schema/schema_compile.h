/* schema_compile: a JSON Schema → rules of a grammar.
 *
 * Owns:     nothing; a compilation lives for one call.
 * Thread:   any.
 * Cost:     bounded by the fuel, LIMIT_SCHEMA_BYTES and the limits of grammars.
 * Not here: the parts: schema_ref, schema_merge, schema_write.
 */
#pragma once

#include "engine/grammar/grammar.h"
#include "engine/schema/constraint_types.h"

/* Adds the rules of a schema to a builder; the caller calls grammar_finish. The builder's pool must
 * have been cut (regex_pool_cut) to the bytes that the vocabulary has. The errors are those of
 * constraint_build. */
enum status schema_compile(struct grammar_builder *builder, struct slice source,
                           const struct constraint_options *options, grammar_symbol *start,
                           struct constraint_error *error);
/* The same of any object. */
enum status schema_compile_object(struct grammar_builder *builder,
                                  const struct constraint_options *options, grammar_symbol *start,
                                  struct constraint_error *error);
