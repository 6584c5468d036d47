/* schema_write: shapes → rules and lexemes.
 *
 * Owns:     nothing; the rules are the builder's.
 * Thread:   that of the compilation.
 * Cost:     two rules for an optional member, one for a run of required ones.
 * Not here: which values match (schema_merge), values that are left open (schema_any).
 *
 * Each set is one rule. Its strings, numbers and literals are one lexeme, and each array and object
 * is an alternative. A member's name with its quotes, its colon and the comma before it is one
 * lexeme.
 */
#pragma once

#include "engine/schema/schema_shape.h"

/* Writes the rules of a productive set and of all that it needs. */
enum status schema_write(struct schema *schema, schema_set_id root, grammar_symbol *out);
