/* schema_write_object: the rules of an object.
 *
 * Owns:     nothing.
 * Thread:   that of the compilation.
 * Cost:     two rules for each optional member; a run of required ones is one alternative.
 * Not here: arrays (schema_write_array).
 *
 * Members come in their order, or, in requests that leave objects open, optional ones at their
 * place or later. Where they come in order, there are two rules behind each place: for the case
 * that a member was written before, so that the next one has a comma, and for the case that none
 * was. The closing brace belongs to the last rule, so that no rule matches the empty text.
 */
#pragma once

#include "engine/schema/schema_write_part.h"

enum status schema_write_object(struct schema_writer *writer, const struct schema_members *members,
                                grammar_symbol *out);
