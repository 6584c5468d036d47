/* schema_array: items, prefixItems, additionalItems, counts of items, uniqueItems.
 *
 * Owns:     nothing.
 * Thread:   that of the compilation.
 * Cost:     a step for each item that has a schema of its own, and each cell.
 * Not here: rules (schema_write).
 */
#pragma once

#include "engine/schema/schema_branch.h"

/* Works the cells of a shape out to `items`, and clears the array type if no array matches. */
enum status schema_array_settle(struct schema *schema, struct schema_shape *shape, uint32_t depth);

#define SCHEMA_ARRAY_KEYWORD(name)                                                                 \
    enum status schema_array_##name(struct schema_work *work, struct schema_branch *branch,        \
                                    const struct schema_use *use);                                 \
    enum status schema_array_##name##_not(struct schema_work *work, struct schema_branch *branch,  \
                                          const struct schema_use *use);
SCHEMA_ARRAY_KEYWORD(items)
SCHEMA_ARRAY_KEYWORD(prefix_items)
SCHEMA_ARRAY_KEYWORD(additional_items)
SCHEMA_ARRAY_KEYWORD(min_items)
SCHEMA_ARRAY_KEYWORD(max_items)
SCHEMA_ARRAY_KEYWORD(unique_items)
SCHEMA_ARRAY_KEYWORD(unevaluated)
#undef SCHEMA_ARRAY_KEYWORD
