/* schema_write_part: what the writers of arrays and objects share.
 *
 * Owns:     the list of sets whose rules are still to be written.
 * Thread:   that of the compilation.
 * Not here: the order of writing (schema_write).
 */
#pragma once

#include "engine/schema/schema_shape.h"

struct schema_writer {
    struct schema *schema;
    const struct schema_cell *waiting; /* sets that have a rule without alternatives */
};

/* The symbol of a set, which some value matches. */
enum status schema_write_part_set(struct schema_writer *writer, schema_set_id set,
                                  grammar_symbol *out);
bool schema_write_part_can_be(const struct schema *schema, schema_set_id set);
grammar_symbol schema_write_part_lexeme(struct schema *schema, regex_node_id regex);
/* The text of a shape's strings. */
regex_node_id schema_write_part_string(struct schema *schema, const struct schema_shape *shape);
/* One of {}[], and the comma. */
grammar_symbol schema_write_part_mark(struct schema *schema, char mark);

/* A use of a counted rule that hands the count on, with `add` added; of anything else. */
static inline struct grammar_use schema_write_part_count(grammar_symbol rule, uint64_t add)
{
    return (struct grammar_use){rule, add == 0 ? GRAMMAR_PASS_OR : GRAMMAR_PASS_ADD, add};
}
static inline struct grammar_use schema_write_part_plain(grammar_symbol symbol)
{
    return (struct grammar_use){symbol, GRAMMAR_PASS_VALUE, 0};
}
