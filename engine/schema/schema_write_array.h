/* schema_write_array: the rules of an array.
 *
 * Owns:     nothing.
 * Thread:   that of the compilation.
 * Cost:     a rule for each item with a place of its own, O(log n) rules for a count n.
 * Not here: objects (schema_write_object).
 */
#pragma once

#include "engine/schema/schema_write_part.h"

enum status schema_write_array(struct schema_writer *writer, const struct schema_items *items,
                               grammar_symbol *out);
