/* schema_unique: the values of an array whose items all differ.
 *
 * Owns:     nothing.
 * Thread:   that of the compilation.
 * Cost:     a set for each value of the enum.
 * Not here: the rule that counts them (schema_write_array).
 *
 * A rule can see that items differ if it knows all their values: each has a bit of a counter. So
 * items of uniqueItems are those of an enum or a const, null or booleans, at most
 * LIMIT_SCHEMA_UNIQUE in all.
 */
#pragma once

#include "engine/schema/schema_shape.h"

/* Fills `values` of the shape's items. It fails where these are too many or not known. */
enum status schema_unique_values(struct schema *schema, struct schema_shape *shape);
