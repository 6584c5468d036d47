/* schema_reach: which sets an answer can come to, and which of them some value matches.
 *
 * Owns:     nothing; the answers are in the sets.
 * Thread:   that of the compilation.
 * Cost:     a step for each part of each shape, and again for each round until nothing changes.
 * Not here: shapes (schema_merge), rules (schema_write).
 *
 * Merging sees that a value is empty a few levels deep. A recursive schema without an end ("a node
 * must have a child") is empty at any depth. So after all shapes are known, sets are marked
 * productive from the leaves up.
 */
#pragma once

#include "engine/schema/schema_shape.h"

/* Merges and marks all sets that `root` needs. */
enum status schema_reach(struct schema *schema, schema_set_id root);

/* Whether some finite array or object has this shape. */
bool schema_reach_array(const struct schema *schema, const struct schema_shape *shape);
bool schema_reach_object(const struct schema *schema, const struct schema_shape *shape);
