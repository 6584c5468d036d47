/* schema_value: enum and const, and what equality means for each type.
 *
 * Owns:     nothing.
 * Thread:   that of the compilation.
 * Cost:     a step for each value; the scalars of an enum become one regex for each type.
 * Not here: how numbers and texts are written (schema_number, schema_text).
 */
#pragma once

#include "engine/schema/schema_branch.h"

enum status schema_value_enum(struct schema_work *work, struct schema_branch *branch,
                              const struct schema_use *use);
enum status schema_value_enum_not(struct schema_work *work, struct schema_branch *branch,
                                  const struct schema_use *use);
enum status schema_value_const(struct schema_work *work, struct schema_branch *branch,
                               const struct schema_use *use);
enum status schema_value_const_not(struct schema_work *work, struct schema_branch *branch,
                                   const struct schema_use *use);

/* The claims EQUAL and NOT_EQUAL, and the choices ENUM and NOT_EQUAL_IN. */
enum status schema_value_equal(struct schema_work *work, struct schema_branch *branch,
                               uint32_t index);
enum status schema_value_not_equal(struct schema_work *work, struct schema_branch *branch,
                                   uint32_t index);
enum status schema_value_enum_split(struct schema_work *work, const struct schema_branch *branch,
                                    uint32_t index);
enum status schema_value_not_equal_split(struct schema_work *work,
                                         const struct schema_branch *branch, uint32_t index);
