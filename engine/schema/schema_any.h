/* schema_any: values that a schema leaves open, at most LIMIT_JSON_ANY_DEPTH levels deep.
 *
 * Owns:     nothing; the rules are the builder's.
 * Thread:   that of the compilation.
 * Cost:     a few rules for each level, once.
 * Not here: values that a schema describes (schema_write).
 */
#pragma once

#include "engine/schema/schema.h"

/* Any value, any array, any object. */
grammar_symbol schema_any_value(struct schema *schema);
grammar_symbol schema_any_array(struct schema *schema);
grammar_symbol schema_any_object(struct schema *schema);
