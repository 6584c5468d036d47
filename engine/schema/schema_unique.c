#include "engine/schema/schema_unique.h"

#include "config/base/limits_schema.h"

static enum status refuse(struct schema *schema, const struct schema_shape *shape)
{
    return schema_fail(schema, STATUS_UNSUPPORTED, shape->unique, NULL,
                       "uniqueItems is supported for items of at most %d values of an enum, for "
                       "booleans, and where maxItems is at most 1.",
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

static enum status add(struct schema *schema, struct schema_shape *shape, uint32_t index)
{
    struct schema_items *items = shape->items;
    for (uint32_t i = 0; i < items->value_count; i++) {
        if (is_same(schema, items->values[i].index, index))
            return STATUS_OK;
    }
    if (schema_kind(schema, index) >= JSON_READ_ARRAY)
        return refuse(schema, shape);
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
    if (items->value_count == LIMIT_SCHEMA_UNIQUE)
        return refuse(schema, shape);
    items->values[items->value_count++] = (struct schema_item_value){.index = index, .set = set};
    return STATUS_OK;
}

static enum status add_enum(struct schema *schema, struct schema_shape *shape, uint32_t index)
{
    if (schema_kind(schema, index) != JSON_READ_ARRAY)
        return add(schema, shape, index);
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < schema_value(schema, index)->count; i++) {
        TRY(add(schema, shape, at));
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

enum status schema_unique_values(struct schema *schema, struct schema_shape *shape)
{
    struct schema_items *items = shape->items;
    uint8_t literals = 0; /* null and booleans that no enum names */
    bool is_empty;
    TRY(schema->look(schema, items->rest, 0, &is_empty));
    if (items->count > 0 || items->some != SCHEMA_SET_ANY || items->rest == SCHEMA_SET_ANY)
        return refuse(schema, shape);
    items->values = schema_take(schema, LIMIT_SCHEMA_UNIQUE * sizeof(*items->values));
    if (items->values == NULL)
        return schema_no_room(schema);
    for (const struct schema_shape *at = schema->sets[items->rest].shapes; at != NULL;
         at = at->next) {
        if (at->values != 0)
            TRY(add_enum(schema, shape, at->values));
        else if ((at->types & ~(SCHEMA_NULL | SCHEMA_BOOLEAN)) != 0)
            return refuse(schema, shape);
        else
            literals |= at->types;
    }
    if (literals != 0 && items->value_count > 0)
        return refuse(schema, shape); /* the same value could have two bits */
    items->literals = literals;
    return STATUS_OK;
}
