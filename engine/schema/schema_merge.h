/* schema_merge: a set of claims → shapes, the alternatives of a value.
 *
 * Owns:     nothing; shapes lie in the memory of the compilation.
 * Thread:   that of the compilation.
 * Cost:     fuel for each claim, branch and cell. A branch that no value matches is dropped before
 *           it splits again, so choices that exclude each other do not multiply.
 * Not here: what keywords do (schema_keywords.def).
 *
 * Claims that hold together are worked in one after the other. A choice (anyOf, the contrary of an
 * object) waits until all others are done and then makes a branch of each of its ways.
 */
#pragma once

#include "engine/schema/schema_shape.h"

/* Merges the set, if it is not yet merged. Without shapes no value matches. To see that a branch is
 * empty it merges the sets of required members, LIMIT_SCHEMA_LOOK_AHEAD levels deep. */
enum status schema_merge(struct schema *schema, schema_set_id set, uint32_t depth);

/* Returns in `is_empty` whether it is known that no value matches the set. */
enum status schema_merge_look(struct schema *schema, schema_set_id set, uint32_t depth,
                              bool *is_empty);
