#include "engine/schema/schema_reach.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_merge.h"
#include "engine/schema/schema_unique.h"

static bool is_productive(const struct schema *schema, schema_set_id set)
{
    return set == SCHEMA_SET_ANY || schema->sets[set].is_productive;
}

bool schema_reach_array(const struct schema *schema, const struct schema_shape *shape)
{
    const struct schema_items *items = shape->items;
    if (items->some != SCHEMA_SET_ANY) {
        for (uint32_t i = 0; i < items->count; i++) {
            if (!is_productive(schema, items->at[i]))
                return false;
        }
        return is_productive(schema, items->some);
    }
    if (items->texts != REGEX_NONE)
        return items->min <= LIMIT_SCHEMA_UNIQUE_TEXTS;
    if (items->values != NULL || items->literals != 0)
        return items->min <= items->value_count + (uint32_t)__builtin_popcount(items->literals);
    for (uint32_t i = 0; i < items->count && i < items->min; i++) {
        if (!is_productive(schema, items->at[i]))
            return false;
    }
    return items->min <= items->count || is_productive(schema, items->rest);
}

bool schema_reach_object(const struct schema *schema, const struct schema_shape *shape)
{
    const struct schema_members *members = shape->members;
    uint32_t possible = 0;
    uint32_t classes = 0;
    for (uint32_t i = 0; i < members->count; i++) {
        bool can_be = is_productive(schema, members->named[i].set);
        possible += can_be;
        if (members->named[i].is_required && !can_be)
            return false;
    }
    for (uint32_t i = 0; i < members->class_count; i++)
        classes += is_productive(schema, members->classes[i].set);
    if (members->has_some && !is_productive(schema, members->some.set))
        return false;
    return possible + (classes > 0) >= members->min;
}

/* --- which sets are needed --- */

struct reach {
    struct schema *schema;
    const struct schema_cell *waiting;
};

static enum status need(struct reach *reach, schema_set_id set)
{
    if (set == SCHEMA_SET_ANY || set == SCHEMA_SET_NONE || reach->schema->sets[set].is_reached)
        return STATUS_OK;
    reach->schema->sets[set].is_reached = true;
    return schema_cell_push(reach->schema, &reach->waiting, 0, set, 0);
}

static enum status need_items(struct reach *reach, struct schema_shape *shape)
{
    struct schema *schema = reach->schema;
    struct schema_items *items = shape->items;
    TRY(schema_spend(schema, 1 + items->count));
    for (uint32_t i = 0; i < items->count && i < items->max; i++)
        TRY(need(reach, items->at[i]));
    if (items->max > items->count)
        TRY(need(reach, items->rest));
    TRY(need(reach, items->some));
    if (shape->unique == 0 || items->max <= 1)
        return STATUS_OK;
    TRY(schema_unique_values(schema, shape));
    for (uint32_t i = 0; i < items->value_count; i++)
        TRY(need(reach, items->values[i].set));
    return STATUS_OK;
}

static enum status need_members(struct reach *reach, const struct schema_members *members)
{
    TRY(schema_spend(reach->schema, 1 + members->count + members->class_count));
    for (uint32_t i = 0; i < members->count; i++)
        TRY(need(reach, members->named[i].set));
    for (uint32_t i = 0; i < members->class_count; i++)
        TRY(need(reach, members->classes[i].set));
    if (members->has_some)
        TRY(need(reach, members->some.set));
    return STATUS_OK;
}

static enum status need_parts(struct reach *reach, schema_set_id set)
{
    TRY(schema_merge(reach->schema, set, 0));
    for (struct schema_shape *at = reach->schema->sets[set].shapes; at != NULL; at = at->next) {
        if ((at->types & SCHEMA_ARRAY) != 0)
            TRY(need_items(reach, at));
        if ((at->types & SCHEMA_OBJECT) != 0)
            TRY(need_members(reach, at->members));
    }
    return STATUS_OK;
}

/* --- which sets have values --- */

static bool has_value(const struct schema *schema, schema_set_id set)
{
    for (const struct schema_shape *at = schema->sets[set].shapes; at != NULL; at = at->next) {
        if ((at->types & ~(SCHEMA_ARRAY | SCHEMA_OBJECT)) != 0)
            return true;
        if ((at->types & SCHEMA_ARRAY) != 0 && schema_reach_array(schema, at))
            return true;
        if ((at->types & SCHEMA_OBJECT) != 0 && schema_reach_object(schema, at))
            return true;
    }
    return false;
}

/* Sets were made after those that need them, so going backwards ends after few rounds. */
static enum status mark_productive(struct schema *schema)
{
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        TRY(schema_spend(schema, schema->set_count));
        for (uint32_t i = schema->set_count; i > SCHEMA_SET_NONE + 1; i--) {
            struct schema_set *set = &schema->sets[i - 1];
            if (!set->is_reached || set->is_productive || !has_value(schema, i - 1))
                continue;
            set->is_productive = true;
            has_changed = true;
        }
    }
    return STATUS_OK;
}

enum status schema_reach(struct schema *schema, schema_set_id root)
{
    struct reach reach = {.schema = schema};
    schema->sets[SCHEMA_SET_ANY].is_productive = true;
    TRY(need(&reach, root));
    while (reach.waiting != NULL) {
        schema_set_id set = reach.waiting->a;
        reach.waiting = reach.waiting->next;
        TRY(need_parts(&reach, set));
    }
    return mark_productive(schema);
}
