/* schema_number: bounds and multiples of numbers, as regexes over their texts.
 *
 * Owns:     nothing.
 * Thread:   that of the compilation.
 * Cost:     O(digits) regex nodes a bound, O(divisor) for a multiple of a fraction.
 * Not here: enum and const (schema_value).
 *
 * A *plain* number has at most LIMIT_JSON_INTEGER_DIGITS digits before the point and
 * LIMIT_JSON_FRACTION_DIGITS behind it, and no exponent. Its value is exact in a schema_decimal.
 * What has a bound, a divisor or a value that it must not have is a plain number, so that the
 * contrary of a regex is exact. An integer is written without a point.
 */
#pragma once

#include "engine/schema/schema_branch.h"

/* About the number at `index`: its type's bit, or both if it has too many digits to tell; its text
 * without needless digits; all plain texts of the same value. */
uint8_t schema_number_types(const struct schema *schema, uint32_t index);
regex_node_id schema_number_text(struct schema *schema, uint32_t index);
regex_node_id schema_number_equal(struct schema *schema, uint32_t index);

/* Adds a regex to the numbers of a shape, or its contrary. */
void schema_number_and(struct schema *schema, struct schema_shape *shape, regex_node_id regex);
void schema_number_and_not(struct schema *schema, struct schema_shape *shape, regex_node_id regex);
/* Adds the bounds of an integer of 32 or 64 bits. */
void schema_number_bits(struct schema_shape *shape, uint32_t bits);

/* Clears the number types of which no value matches. */
enum status schema_number_settle(struct schema *schema, struct schema_shape *shape);
/* The text of the shape's numbers. */
regex_node_id schema_number_regex(struct schema *schema, const struct schema_shape *shape);

#define SCHEMA_NUMBER_KEYWORD(name)                                                                \
    enum status schema_number_##name(struct schema_work *work, struct schema_branch *branch,       \
                                     const struct schema_use *use);                                \
    enum status schema_number_##name##_not(struct schema_work *work, struct schema_branch *branch, \
                                           const struct schema_use *use);
SCHEMA_NUMBER_KEYWORD(minimum)
SCHEMA_NUMBER_KEYWORD(maximum)
SCHEMA_NUMBER_KEYWORD(exclusive_minimum)
SCHEMA_NUMBER_KEYWORD(exclusive_maximum)
SCHEMA_NUMBER_KEYWORD(multiple_of)
#undef SCHEMA_NUMBER_KEYWORD
