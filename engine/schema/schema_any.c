#include "engine/schema/schema_any.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_text.h"

static grammar_symbol lexeme(struct schema *schema, regex_node_id regex)
{
    return grammar_lexeme(schema->builder, regex, GRAMMAR_GREEDY);
}

static grammar_symbol scalar(struct schema *schema)
{
    const regex_node_id nodes[] = {
        schema_text_any_string(schema, 0, UINT32_MAX),
        schema->text->any_number,
        schema_text_of(schema, "true"),
        schema_text_of(schema, "false"),
        schema_text_of(schema, "null"),
    };
    return lexeme(schema, regex_or_many(schema->regexes, nodes, sizeof nodes / sizeof nodes[0]));
}

/* `open`, and then `first` and any number of `next`, or nothing, and then `close`. */
static grammar_symbol list(struct schema *schema, char open, char close, grammar_symbol first,
                           grammar_symbol next)
{
    struct grammar_builder *builder = schema->builder;
    grammar_symbol begin = lexeme(schema, schema_text_mark(schema, open));
    grammar_symbol end = lexeme(schema, schema_text_mark(schema, close));
    grammar_symbol more = grammar_repeat(builder, next, 0, GRAMMAR_UNBOUNDED);
    grammar_symbol rule = grammar_rule(builder);
    grammar_rule_add(builder, rule, (const grammar_symbol[]){begin, end}, 2);
    grammar_rule_add(builder, rule, (const grammar_symbol[]){begin, first, more, end}, 4);
    return rule;
}

static grammar_symbol array(struct schema *schema, grammar_symbol value)
{
    grammar_symbol comma = lexeme(schema, schema_text_mark(schema, ','));
    grammar_symbol next =
        grammar_sequence(schema->builder, (const grammar_symbol[]){comma, value}, 2);
    return list(schema, '[', ']', value, next);
}

static grammar_symbol object(struct schema *schema, grammar_symbol value)
{
    regex_node_id any = schema->text->any_characters;
    grammar_symbol names[2];
    for (int i = 0; i < 2; i++) {
        grammar_symbol name = lexeme(schema, schema_text_name(schema, any, i == 1));
        names[i] = grammar_sequence(schema->builder, (const grammar_symbol[]){name, value}, 2);
    }
    return list(schema, '{', '}', names[0], names[1]);
}

/* Makes the rules from the inside out; the last level is that of a whole value. */
static void make(struct schema *schema)
{
    if (schema->any_value != GRAMMAR_NOTHING)
        return;
    grammar_symbol value = scalar(schema);
    grammar_symbol scalars = value;
    for (uint32_t depth = 0; depth < LIMIT_JSON_ANY_DEPTH; depth++) {
        schema->any_array = array(schema, value);
        schema->any_object = object(schema, value);
        value = grammar_either(
            schema->builder,
            (const grammar_symbol[]){scalars, schema->any_array, schema->any_object}, 3);
    }
    schema->any_value = value;
}

grammar_symbol schema_any_value(struct schema *schema)
{
    make(schema);
    return schema->any_value;
}

grammar_symbol schema_any_array(struct schema *schema)
{
    make(schema);
    return schema->any_array;
}

grammar_symbol schema_any_object(struct schema *schema)
{
    make(schema);
    return schema->any_object;
}
