/* schema_string: lengths, patterns and formats of strings.
 *
 * Owns:     nothing.
 * Thread:   that of the compilation.
 * Cost:     a pattern and a format are parsed once.
 * Not here: which regexes are supported (regex_parse), the formats themselves (schema_formats.def).
 */
#pragma once

#include "engine/schema/schema_branch.h"

/* Clears the string type if no string matches. */
enum status schema_string_settle(struct schema *schema, struct schema_shape *shape);
/* The characters of the strings that the shape allows, lengths included. */
regex_node_id schema_string_characters(struct schema *schema, const struct schema_shape *shape);
/* The regex of the pattern at `index`, which may be a value or a name. */
enum status schema_string_parse(struct schema *schema, uint32_t index, regex_node_id *out);
/* A keyword's number of characters, items or members: at least so many, at most so many, and the
 * contrary of each, of which "not at least 0" is never true. They move a bound and do not loosen
 * it. */
enum status schema_string_count_least(struct schema *schema, const struct schema_use *use,
                                      uint32_t *min);
enum status schema_string_count_least_not(struct schema *schema, const struct schema_use *use,
                                          uint32_t *max, bool *is_dead);
enum status schema_string_count_most(struct schema *schema, const struct schema_use *use,
                                     uint32_t *max);
enum status schema_string_count_most_not(struct schema *schema, const struct schema_use *use,
                                         uint32_t *min);

#define SCHEMA_STRING_KEYWORD(name)                                                                \
    enum status schema_string_##name(struct schema_work *work, struct schema_branch *branch,       \
                                     const struct schema_use *use);                                \
    enum status schema_string_##name##_not(struct schema_work *work, struct schema_branch *branch, \
                                           const struct schema_use *use);
SCHEMA_STRING_KEYWORD(min_length)
SCHEMA_STRING_KEYWORD(max_length)
SCHEMA_STRING_KEYWORD(pattern)
SCHEMA_STRING_KEYWORD(format)
#undef SCHEMA_STRING_KEYWORD
