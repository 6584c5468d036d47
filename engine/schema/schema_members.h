/* schema_members: the cells of an object's shape → its named members and its classes of names.
 *
 * Owns:     nothing; the result lies in the memory of the compilation.
 * Thread:   that of the compilation.
 * Cost:     see schema_object.
 * Not here: keywords (schema_object), rules (schema_write).
 */
#pragma once

#include "engine/schema/schema_shape.h"

/* Sets shape->members, and clears the object type if no object matches. */
enum status schema_members_work_out(struct schema *schema, struct schema_shape *shape,
                                    uint32_t depth);
