/* schema_ref: where `$ref` points to within the schema's own text.
 *
 * Owns:     the names of resources (`$id`) and anchors, in the memory of the compilation.
 * Thread:   that of the compilation.
 * Cost:     O(values) once; O(names) for a reference.
 * Not here: fetching anything: a reference that leaves the text is refused.
 *
 * A reference is resolved against the `$id` around it (RFC 3986, part 5). Its fragment is a JSON
 * pointer or an anchor. A pointer may lead to any place of the text.
 */
#pragma once

#include "engine/schema/schema.h"

/* Finds all names of the text. */
enum status schema_ref_begin(struct schema *schema);
/* Returns the index of the schema that the `$ref` of the schema at `object` names by its value. */
enum status schema_ref_find(struct schema *schema, uint32_t object, uint32_t value, uint32_t *out);
