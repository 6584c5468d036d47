/* schema_path: where a value stands in a schema, for error messages.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     O(values) of the objects and arrays around it.
 * Not here: the messages (schema_fail).
 */
#pragma once

#include "config/base/json_read.h"
#include "engine/schema/constraint_types.h"

/* Writes ".properties.x.items[2]" for the value at `index`, and the last name of the path. Both are
 * cut to their room, at a whole character. */
void schema_path_write(const struct json_read *json, uint32_t index,
                       char path[CONSTRAINT_PATH_BYTES], char keyword[CONSTRAINT_KEYWORD_BYTES]);
