#include "engine/schema/schema_unique.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_text.h"
#include "engine/schema/schema_write_part.h"

static enum status refuse(struct schema *schema, const struct schema_shape *shape)
{
    return schema_fail(schema, STATUS_UNSUPPORTED, shape->unique, NULL,
                       "uniqueItems is supported for items of at most %d values of an enum, for "
                       "booleans, for strings of any length, and where maxItems is at most 1.",
                       LIMIT_SCHEMA_UNIQUE);
}

/* Whether two scalars of the schema's text are the same value. */
static bool is_same(const struct schema *schema, uint32_t a, uint32_t b)
{
    const struct json_read_value *x = schema_value(schema, a), *y = schema_value(schema, b);
    bool are_numbers = (x->kind == JSON_READ_INTEGER || x->kind == JSON_READ_FLOAT) &&
                       (y->kind == JSON_READ_INTEGER || y->kind == JSON_READ_FLOAT);
    if (are_numbers) {
        schema_decimal p, q;
        enum schema_decimal_fit fit = schema_decimal_read(json_read_text(x), &p);
        return fit == schema_decimal_read(json_read_text(y), &q) && p == q;
    }
    if (x->kind != y->kind)
        return false;
    return x->kind != JSON_READ_STRING || slice_equals(json_read_text(x), json_read_text(y));
}

/* --- values with a bit each --- */

/* Clears `is_countable` where the value cannot have a bit. */
static enum status add(struct schema *schema, struct schema_shape *shape, uint32_t index,
                       bool *is_countable)
{
    struct schema_items *items = shape->items;
    for (uint32_t i = 0; i < items->value_count; i++) {
        if (is_same(schema, items->values[i].index, index))
            return STATUS_OK;
    }
    if (schema_kind(schema, index) >= JSON_READ_ARRAY) {
        *is_countable = false;
        return STATUS_OK;
    }
    const struct schema_set *rest = &schema->sets[items->rest];
    schema_claim *claims = schema_take(schema, (rest->count + 1) * sizeof *claims);
    if (claims == NULL)
        return schema_no_room(schema);
    for (uint32_t i = 0; i < rest->count; i++)
        claims[i] = rest->claims[i];
    claims[rest->count] = schema_claim_of(SCHEMA_EQUAL, index);
    schema_set_id set;
    bool is_empty;
    TRY(schema_set_of(schema, claims, rest->count + 1, &set));
    TRY(schema->look(schema, set, 0, &is_empty));
    if (is_empty)
        return STATUS_OK;
    *is_countable = items->value_count < LIMIT_SCHEMA_UNIQUE;
    if (!*is_countable)
        return STATUS_OK;
    items->values[items->value_count++] = (struct schema_item_value){.index = index, .set = set};
    return STATUS_OK;
}

static enum status add_enum(struct schema *schema, struct schema_shape *shape, uint32_t index,
                            bool *is_countable)
{
    if (schema_kind(schema, index) != JSON_READ_ARRAY)
        return add(schema, shape, index, is_countable);
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < schema_value(schema, index)->count && *is_countable; i++) {
        TRY(add(schema, shape, at, is_countable));
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

/* Finds the values that may come. They are countable if each of them has a bit. */
static enum status find_values(struct schema *schema, struct schema_shape *shape,
                               bool *is_countable)
{
    struct schema_items *items = shape->items;
    items->values = schema_take(schema, LIMIT_SCHEMA_UNIQUE * sizeof(*items->values));
    if (items->values == NULL)
        return schema_no_room(schema);
    for (const struct schema_shape *at = schema->sets[items->rest].shapes;
         at != NULL && *is_countable; at = at->next) {
        if (at->values != 0)
            TRY(add_enum(schema, shape, at->values, is_countable));
        else if ((at->types & ~(SCHEMA_NULL | SCHEMA_BOOLEAN)) != 0)
            *is_countable = false;
        else
            items->literals |= at->types; /* null and booleans that no enum names */
    }
    if (items->literals != 0 && items->value_count > 0)
        *is_countable = false; /* the same value could have two bits */
    return STATUS_OK;
}

/* --- strings --- */

/* Whether every beginning of a text goes on for ever: then some text is always new. */
static enum status goes_on(struct schema *schema, regex_node_id root, bool *out)
{
    struct regex_pool *pool = schema->regexes;
    uint8_t class_of[256], first[256];
    uint32_t classes = regex_pool_classes(pool, &root, 1, class_of, first);
    regex_node_id *states = schema_take(schema, LIMIT_SCHEMA_UNIQUE_STATES * sizeof *states);
    if (states == NULL)
        return schema_no_room(schema);
    *out = false;
    states[0] = root;
    uint32_t count = 1;
    for (uint32_t i = 0; i < count; i++) {
        bool has_way = false;
        for (uint32_t class = 0; class < classes; class ++) {
            regex_node_id next = regex_derive(pool, states[i], first[class]);
            TRY(schema_spend(schema, 1 + count / 16));
            if (regex_pool_is_cut(pool, first[class]) || regex_is_nullable(pool, next) ||
                schema_text_is_empty(schema, next))
                continue;
            has_way = true;
            uint32_t at = 0;
            while (at < count && states[at] != next)
                at++;
            if (at == LIMIT_SCHEMA_UNIQUE_STATES)
                return STATUS_OK;
            states[at] = next;
            count += at == count;
        }
        if (!has_way)
            return STATUS_OK;
    }
    *out = true;
    return STATUS_OK;
}

/* Texts in which control characters are written with small digits, so that equal strings have
 * equal texts. */
static regex_node_id written_one_way(struct schema *schema, regex_node_id texts)
{
    struct regex_pool *pool = schema->regexes;
    struct byte_set all = {0}, capitals = {0}, tens = {0};
    for (uint32_t byte = 0; byte < 256; byte++)
        byte_set_add(&all, (uint8_t)byte);
    for (uint8_t byte = 'A'; byte <= 'F'; byte++)
        byte_set_add(&capitals, byte);
    byte_set_add(&tens, '0');
    byte_set_add(&tens, '1');
    regex_node_id any = regex_repeat(pool, regex_bytes(pool, &all), 0, REGEX_UNBOUNDED);
    regex_node_id digits = regex_cat(pool, regex_bytes(pool, &tens), regex_bytes(pool, &capitals));
    regex_node_id other = schema_text_cat3(schema, any, schema_text_of(schema, "\\u00"),
                                           regex_cat(pool, digits, any));
    return regex_and(pool, texts, regex_not(pool, other));
}

/* Items of other sorts than strings are left out. */
static enum status find_texts(struct schema *schema, struct schema_shape *shape)
{
    struct schema_items *items = shape->items;
    items->values = NULL;
    items->value_count = 0;
    items->literals = 0;
    for (const struct schema_shape *at = schema->sets[items->rest].shapes; at != NULL;
         at = at->next) {
        TRY(schema_spend(schema, 8));
        if ((at->types & SCHEMA_STRING) != 0)
            items->texts =
                regex_or(schema->regexes, items->texts, schema_write_part_string(schema, at));
    }
    items->texts = written_one_way(schema, items->texts);
    bool is_endless = false;
    if (items->texts != REGEX_NONE)
        TRY(goes_on(schema, items->texts, &is_endless));
    TRY(grammar_builder_status(schema->builder));
    return is_endless ? STATUS_OK : refuse(schema, shape);
}

enum status schema_unique_values(struct schema *schema, struct schema_shape *shape)
{
    const struct schema_items *items = shape->items;
    bool is_countable = true;
    bool is_empty;
    TRY(schema->look(schema, items->rest, 0, &is_empty));
    if (items->count > 0 || items->some != SCHEMA_SET_ANY || items->rest == SCHEMA_SET_ANY)
        return refuse(schema, shape);
    TRY(find_values(schema, shape, &is_countable));
    return is_countable ? STATUS_OK : find_texts(schema, shape);
}
