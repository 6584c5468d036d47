#include "engine/schema/schema_write_array.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_any.h"
#include "engine/schema/schema_text.h"

struct marks {
    grammar_symbol open;
    grammar_symbol close;
    grammar_symbol comma;
};

#define ADD(builder, rule, ...)                                                                    \
    grammar_rule_add(builder, rule, (const grammar_symbol[]){__VA_ARGS__},                         \
                     sizeof((const grammar_symbol[]){__VA_ARGS__}) / sizeof(grammar_symbol))

static uint32_t less(uint32_t a, uint32_t b)
{
    return a > b ? a - b : 0;
}

/* `from` to `to` more items, each behind a comma. A grammar counts to GRAMMAR_REPEAT; a greater
 * `to` is narrowed. */
static grammar_symbol more_items(struct schema *schema, const struct marks *marks,
                                 grammar_symbol item, uint32_t from, uint32_t to)
{
    grammar_symbol next =
        grammar_sequence(schema->builder, (const grammar_symbol[]){marks->comma, item}, 2);
    if (to != GRAMMAR_UNBOUNDED && to > GRAMMAR_REPEAT)
        to = GRAMMAR_REPEAT;
    return grammar_repeat(schema->builder, next, from, to);
}

/* --- items that all differ --- */

/* Rules over the bits of the values that were written. */
struct unique {
    grammar_symbol first; /* the first item, and what follows it */
    grammar_symbol after; /* behind an item */
    grammar_symbol more;  /* behind an item, if there may be another one */
};

/* Adds a way for the value whose bit is `bit`: first in the array, and behind a comma. */
static void add_value(struct schema *schema, const struct marks *marks, const struct unique *rules,
                      grammar_symbol value, uint64_t bit)
{
    const struct grammar_use next[] = {schema_write_part_plain(marks->comma),
                                       schema_write_part_plain(value),
                                       {rules->after, GRAMMAR_PASS_OR, bit}};
    const struct grammar_when is_new = {GRAMMAR_CLEAR, bit};
    grammar_counted_add(schema->builder, rules->first, is_new, &next[1], 2);
    grammar_counted_add(schema->builder, rules->more, is_new, next, 3);
}

static enum status add_values(struct schema_writer *writer, const struct schema_items *items,
                              const struct marks *marks, const struct unique *rules)
{
    static const char *const texts[] = {"null", "false", "true"};
    struct schema *schema = writer->schema;
    uint64_t bit = 1;
    grammar_symbol value;
    for (uint32_t i = 0; i < items->value_count; i++, bit <<= 1) {
        TRY(schema_write_part_set(writer, items->values[i].set, &value));
        add_value(schema, marks, rules, value, bit);
    }
    for (uint32_t i = 0; i < 3; i++) {
        if ((items->literals & (1 << i)) == 0)
            continue;
        value = schema_write_part_lexeme(schema, schema_text_of(schema, texts[i]));
        add_value(schema, marks, rules, value, bit);
        bit <<= 1;
    }
    return STATUS_OK;
}

static enum status write_unique(struct schema_writer *writer, const struct schema_items *items,
                                const struct marks *marks, grammar_symbol rule)
{
    struct grammar_builder *builder = writer->schema->builder;
    const struct grammar_when always = {GRAMMAR_ALWAYS, 0};
    const struct unique rules = {grammar_rule(builder), grammar_rule(builder),
                                 grammar_rule(builder)};
    TRY(add_values(writer, items, marks, &rules));
    const struct grammar_use end = schema_write_part_plain(marks->close);
    const struct grammar_use more = schema_write_part_count(rules.more, 0);
    grammar_counted_add(builder, rules.after, (struct grammar_when){GRAMMAR_BITS, items->min}, &end,
                        1);
    grammar_counted_add(builder, rules.after,
                        (struct grammar_when){GRAMMAR_BITS_MOST, items->max - 1}, &more, 1);
    const struct grammar_use whole[] = {schema_write_part_plain(marks->open),
                                        {rules.first, GRAMMAR_PASS_VALUE, 0}};
    grammar_counted_add(builder, rule, always, whole, 2);
    const struct grammar_use empty[] = {whole[0], end};
    if (items->min == 0)
        grammar_counted_add(builder, rule, always, empty, 2);
    return STATUS_OK;
}

/* Strings that all differ: the count stands for those that were written. */
static void write_texts(struct schema_writer *writer, const struct schema_items *items,
                        const struct marks *marks, grammar_symbol rule)
{
    struct grammar_builder *builder = writer->schema->builder;
    const struct grammar_when always = {GRAMMAR_ALWAYS, 0};
    uint32_t max = items->max < LIMIT_SCHEMA_UNIQUE_TEXTS ? items->max : LIMIT_SCHEMA_UNIQUE_TEXTS;
    const struct grammar_when enough = {GRAMMAR_LEAST, GRAMMAR_LIST_LEAST(items->min)};
    const struct grammar_when fewer = {GRAMMAR_MOST, GRAMMAR_LIST_MOST(max - 1)};
    grammar_symbol first = grammar_rule(builder);
    grammar_symbol after = grammar_rule(builder);
    const struct grammar_use next[] = {
        schema_write_part_plain(marks->comma),
        schema_write_part_plain(grammar_lexeme(builder, items->texts, GRAMMAR_NEW)),
        {after, GRAMMAR_PASS_LIST, 0}};
    const struct grammar_use whole[] = {schema_write_part_plain(marks->open),
                                        {first, GRAMMAR_PASS_VALUE, 0}};
    const struct grammar_use end = schema_write_part_plain(marks->close);
    const struct grammar_use empty[] = {whole[0], end};
    grammar_counted_add(builder, first, always, &next[1], 2);
    grammar_counted_add(builder, after, enough, &end, 1);
    grammar_counted_add(builder, after, fewer, next, 3);
    grammar_counted_add(builder, rule, always, whole, 2);
    if (items->min == 0)
        grammar_counted_add(builder, rule, always, empty, 2);
}

/* --- other arrays --- */

/* An item of the set `some` stands somewhere behind the places. */
static enum status write_some(struct schema_writer *writer, const struct schema_items *items,
                              const struct marks *marks, grammar_symbol rule)
{
    struct schema *schema = writer->schema;
    struct grammar_builder *builder = schema->builder;
    grammar_symbol rest, some;
    TRY(schema_write_part_set(writer, items->rest, &rest));
    TRY(schema_write_part_set(writer, items->some, &some));
    uint32_t from = less(items->min, items->count + 1);
    grammar_symbol end = more_items(schema, marks, rest, from, GRAMMAR_UNBOUNDED);
    if (items->count == 0) {
        grammar_symbol before = grammar_repeat(
            builder, grammar_sequence(builder, (const grammar_symbol[]){rest, marks->comma}, 2), 0,
            GRAMMAR_UNBOUNDED);
        ADD(builder, rule, marks->open, before, some, end, marks->close);
        return STATUS_OK;
    }
    grammar_symbol places = marks->open;
    for (uint32_t i = 0; i < items->count; i++) {
        grammar_symbol item;
        TRY(schema_write_part_set(writer, items->at[i], &item));
        grammar_symbol longer = grammar_rule(builder);
        if (i == 0)
            ADD(builder, longer, places, item);
        else
            ADD(builder, longer, places, marks->comma, item);
        places = longer;
    }
    ADD(builder, rule, places, more_items(schema, marks, rest, 0, GRAMMAR_UNBOUNDED), marks->comma,
        some, end, marks->close);
    return STATUS_OK;
}

/* What stands behind `count` items, all of which have places. */
static enum status write_rest(struct schema_writer *writer, const struct schema_items *items,
                              const struct marks *marks, uint32_t count, uint32_t max,
                              grammar_symbol rule)
{
    struct schema *schema = writer->schema;
    if (max <= count) {
        ADD(schema->builder, rule, marks->close);
        return STATUS_OK;
    }
    grammar_symbol rest;
    TRY(schema_write_part_set(writer, items->rest, &rest));
    uint32_t to = max == UINT32_MAX ? GRAMMAR_UNBOUNDED : max - count;
    ADD(schema->builder, rule, more_items(schema, marks, rest, less(items->min, count), to),
        marks->close);
    return STATUS_OK;
}

/* The greatest number of items, seeing which items no value matches. */
static uint32_t items_most(const struct schema *schema, const struct schema_items *items)
{
    uint32_t max = items->max;
    for (uint32_t i = 0; i < items->count && i < max; i++) {
        if (!schema_write_part_can_be(schema, items->at[i]))
            max = i;
    }
    if (max > items->count && !schema_write_part_can_be(schema, items->rest))
        max = items->count;
    return max;
}

static enum status write_items(struct schema_writer *writer, const struct schema_items *items,
                               const struct marks *marks, grammar_symbol rule)
{
    struct grammar_builder *builder = writer->schema->builder;
    uint32_t max = items_most(writer->schema, items);
    uint32_t count = items->count < max ? items->count : max;
    if (items->min == 0)
        ADD(builder, rule, marks->open, marks->close);
    if (max == 0)
        return STATUS_OK;
    grammar_symbol item;
    TRY(schema_write_part_set(writer, count > 0 ? items->at[0] : items->rest, &item));
    grammar_symbol behind = grammar_rule(builder);
    ADD(builder, rule, marks->open, item, behind);
    for (uint32_t i = 1; i < count; i++) {
        grammar_symbol next = grammar_rule(builder);
        TRY(schema_write_part_set(writer, items->at[i], &item));
        if (i >= items->min)
            ADD(builder, behind, marks->close);
        ADD(builder, behind, marks->comma, item, next);
        behind = next;
    }
    return write_rest(writer, items, marks, count > 0 ? count : 1, max, behind);
}

enum status schema_write_array(struct schema_writer *writer, const struct schema_items *items,
                               grammar_symbol *out)
{
    struct schema *schema = writer->schema;
    if (items->is_free) {
        *out = schema_any_array(schema);
        return STATUS_OK;
    }
    const struct marks marks = {schema_write_part_mark(schema, '['),
                                schema_write_part_mark(schema, ']'),
                                schema_write_part_mark(schema, ',')};
    *out = grammar_rule(schema->builder);
    TRY(schema_spend(schema, 8 + items->count));
    if (items->some != SCHEMA_SET_ANY)
        return write_some(writer, items, &marks, *out);
    if (items->texts != REGEX_NONE && items->max > 1) {
        write_texts(writer, items, &marks, *out);
        return STATUS_OK;
    }
    if (items->values == NULL || items->max <= 1)
        return write_items(writer, items, &marks, *out);
    return write_unique(writer, items, &marks, *out);
}
