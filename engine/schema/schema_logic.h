/* schema_logic: keywords that speak of other schemas or of types: $ref, type, allOf, anyOf, oneOf,
 * not, if, dependencies.
 *
 * Owns:     nothing.
 * Thread:   that of the compilation.
 * Cost:     oneOf looks at each pair of its branches.
 * Not here: the table (schema_keyword), keywords of one type.
 *
 * oneOf makes a branch of each of its schemas, and adds "not valid under that one" for each other
 * schema, unless no value matches both.
 */
#pragma once

#include "engine/schema/schema_branch.h"

#define SCHEMA_LOGIC(name)                                                                         \
    enum status schema_logic_##name(struct schema_work *work, struct schema_branch *branch,        \
                                    const struct schema_use *use);                                 \
    enum status schema_logic_##name##_not(struct schema_work *work, struct schema_branch *branch,  \
                                          const struct schema_use *use);
SCHEMA_LOGIC(ref)
SCHEMA_LOGIC(type)
SCHEMA_LOGIC(all_of)
SCHEMA_LOGIC(any_of)
SCHEMA_LOGIC(one_of)
SCHEMA_LOGIC(not )
SCHEMA_LOGIC(if)
SCHEMA_LOGIC(depend)
#undef SCHEMA_LOGIC

/* The branches of a choice; `index` is that of its claim. */
enum status schema_logic_some(struct schema_work *work, const struct schema_branch *branch,
                              uint32_t index, enum schema_claim_kind kind);
enum status schema_logic_one(struct schema_work *work, const struct schema_branch *branch,
                             uint32_t index);
enum status schema_logic_not_one(struct schema_work *work, const struct schema_branch *branch,
                                 uint32_t index);
enum status schema_logic_if_split(struct schema_work *work, const struct schema_branch *branch,
                                  uint32_t index, enum schema_claim_kind kind);
enum status schema_logic_depend_split(struct schema_work *work, const struct schema_branch *branch,
                                      uint32_t index);
