#include "engine/schema/schema_write_part.h"

#include "engine/schema/schema_any.h"
#include "engine/schema/schema_number.h"
#include "engine/schema/schema_string.h"
#include "engine/schema/schema_text.h"

bool schema_write_part_can_be(const struct schema *schema, schema_set_id set)
{
    return schema->sets[set].is_productive;
}

grammar_symbol schema_write_part_lexeme(struct schema *schema, regex_node_id regex)
{
    return grammar_lexeme(schema->builder, regex, GRAMMAR_GREEDY);
}

grammar_symbol schema_write_part_mark(struct schema *schema, char mark)
{
    return schema_write_part_lexeme(schema, schema_text_mark(schema, mark));
}

regex_node_id schema_write_part_string(struct schema *schema, const struct schema_shape *shape)
{
    if (shape->characters == schema->text->any_characters)
        return schema_text_any_string(schema, shape->length_min, shape->length_max);
    return schema_text_string(schema, schema_string_characters(schema, shape));
}

/* The text of a shape's strings, numbers and literals. */
static void add_scalars(struct schema *schema, const struct schema_shape *shape,
                        struct schema_text_many *many)
{
    static const struct {
        uint8_t type;
        const char *text;
    } literals[] = {{SCHEMA_NULL, "null"}, {SCHEMA_FALSE, "false"}, {SCHEMA_TRUE, "true"}};
    for (size_t i = 0; i < sizeof literals / sizeof literals[0]; i++) {
        if ((shape->types & literals[i].type) != 0)
            schema_text_many_add(many, schema_text_of(schema, literals[i].text));
    }
    if ((shape->types & SCHEMA_NUMBER) != 0)
        schema_text_many_add(many, schema_number_regex(schema, shape));
    if ((shape->types & SCHEMA_STRING) != 0)
        schema_text_many_add(many, schema_write_part_string(schema, shape));
}

enum status schema_write_part_set(struct schema_writer *writer, schema_set_id id,
                                  grammar_symbol *out)
{
    struct schema *schema = writer->schema;
    struct schema_set *set = &schema->sets[id];
    if (id == SCHEMA_SET_ANY) {
        *out = schema_any_value(schema);
        return STATUS_OK;
    }
    *out = set->symbol;
    if (*out != GRAMMAR_NOTHING)
        return STATUS_OK;
    TRY(schema_spend(schema, 8 * set->shape_count + 1));
    struct schema_text_many many;
    bool has_parts = false;
    TRY(schema_text_many_begin(schema, 5 * set->shape_count, &many));
    for (const struct schema_shape *at = set->shapes; at != NULL; at = at->next) {
        add_scalars(schema, at, &many);
        has_parts = has_parts || (at->types & (SCHEMA_ARRAY | SCHEMA_OBJECT)) != 0;
    }
    grammar_symbol scalars = schema_write_part_lexeme(schema, schema_text_many_or(schema, &many));
    *out = scalars;
    if (has_parts) {
        *out = grammar_rule(schema->builder);
        if (scalars != GRAMMAR_NOTHING)
            grammar_rule_add(schema->builder, *out, &scalars, 1);
        TRY(schema_cell_push(schema, &writer->waiting, 0, id, 0));
    }
    set->symbol = *out;
    return grammar_builder_status(schema->builder);
}
