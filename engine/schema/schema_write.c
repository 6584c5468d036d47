#include "engine/schema/schema_write.h"

#include "engine/schema/schema_reach.h"
#include "engine/schema/schema_write_array.h"
#include "engine/schema/schema_write_object.h"
#include "engine/schema/schema_write_part.h"

static enum status write_shape(struct schema_writer *writer, grammar_symbol rule,
                               const struct schema_shape *shape)
{
    struct schema *schema = writer->schema;
    grammar_symbol symbol;
    if ((shape->types & SCHEMA_ARRAY) != 0 && schema_reach_array(schema, shape)) {
        TRY(schema_write_array(writer, shape->items, &symbol));
        grammar_rule_add(schema->builder, rule, &symbol, 1);
    }
    if ((shape->types & SCHEMA_OBJECT) != 0 && schema_reach_object(schema, shape)) {
        TRY(schema_write_object(writer, shape->members, &symbol));
        grammar_rule_add(schema->builder, rule, &symbol, 1);
    }
    return grammar_builder_status(schema->builder);
}

enum status schema_write(struct schema *schema, schema_set_id root, grammar_symbol *out)
{
    struct schema_writer writer = {.schema = schema};
    TRY(schema_write_part_set(&writer, root, out));
    while (writer.waiting != NULL) {
        schema_set_id set = writer.waiting->a;
        writer.waiting = writer.waiting->next;
        for (const struct schema_shape *at = schema->sets[set].shapes; at != NULL; at = at->next)
            TRY(write_shape(&writer, schema->sets[set].symbol, at));
    }
    return STATUS_OK;
}
