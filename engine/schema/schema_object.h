/* schema_object: properties and names of objects.
 *
 * Owns:     nothing.
 * Thread:   that of the compilation.
 * Cost:     a step for each pair of a name and a schema that speaks of it; an emptiness test for
 *           each pair of a pattern and a class of names.
 * Not here: rules (schema_write).
 *
 * Named members are those that some schema names. Their order is that of `properties` as written,
 * then that of `required`. All other names fall into classes: the patterns that a name matches
 * decide which schemas its value has. The classes exclude each other and all named members.
 */
#pragma once

#include "engine/schema/schema_branch.h"

/* Works the cells of a shape out to `members`, and clears the object type if no object matches. */
enum status schema_object_settle(struct schema *schema, struct schema_shape *shape, uint32_t depth);

#define SCHEMA_OBJECT_KEYWORD(name)                                                                \
    enum status schema_object_##name(struct schema_work *work, struct schema_branch *branch,       \
                                     const struct schema_use *use);                                \
    enum status schema_object_##name##_not(struct schema_work *work, struct schema_branch *branch, \
                                           const struct schema_use *use);
SCHEMA_OBJECT_KEYWORD(properties)
SCHEMA_OBJECT_KEYWORD(pattern_properties)
SCHEMA_OBJECT_KEYWORD(additional_properties)
SCHEMA_OBJECT_KEYWORD(unevaluated)
SCHEMA_OBJECT_KEYWORD(required)
SCHEMA_OBJECT_KEYWORD(property_names)
SCHEMA_OBJECT_KEYWORD(min_properties)
SCHEMA_OBJECT_KEYWORD(max_properties)
#undef SCHEMA_OBJECT_KEYWORD
