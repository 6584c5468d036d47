#include "engine/schema/schema_array.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_string.h"

/* What a schema says of items: a list for the first ones, and one schema for those behind it. */
struct items_of {
    uint32_t list;  /* an array of schemas, or 0 */
    uint32_t count; /* of the list */
    uint32_t rest;  /* a schema, or 0 */
};

static struct items_of read_items(const struct schema *schema, uint32_t object)
{
    struct items_of result = {.list = schema_member(schema, object, "prefixItems")};
    uint32_t items = schema_member(schema, object, "items");
    if (items != 0 && schema_kind(schema, items) == JSON_READ_ARRAY) { /* before 2020-12 */
        result.list = items;
        result.rest = schema_member(schema, object, "additionalItems");
    } else {
        result.rest = items;
    }
    /* With no other keyword that looks at items, it means the same as `items`. */
    if (result.rest == 0)
        result.rest = schema_member(schema, object, "unevaluatedItems");
    if (result.list != 0)
        result.count = schema_value(schema, result.list)->count;
    return result;
}

/* The schema of the item at `position`, or 0. */
static uint32_t item_schema(const struct schema *schema, const struct items_of *items,
                            uint32_t position)
{
    if (position >= items->count)
        return items->rest;
    uint32_t at = items->list + 1;
    for (uint32_t i = 0; i < position; i++)
        at = schema_value(schema, at)->next;
    return at;
}

/* --- keywords --- */

/* One cell stands for all keywords of a schema that speak of items. */
static enum status add_items(struct schema_work *work, struct schema_branch *branch,
                             const struct schema_use *use)
{
    const struct schema_cell *last = branch->shape.array;
    if (last != NULL && last->kind == SCHEMA_ITEMS && last->a == use->object)
        return STATUS_OK;
    return schema_branch_array(work, branch, SCHEMA_ITEMS, use->object, 0);
}

static enum status check_list(struct schema *schema, uint32_t index)
{
    if (schema_kind(schema, index) != JSON_READ_ARRAY)
        return schema_fail(schema, STATUS_INVALID, index, NULL, "An array of schemas is needed.");
    if (schema_value(schema, index)->count > LIMIT_SCHEMA_POSITIONS)
        return schema_fail(schema, STATUS_LIMIT, index, NULL,
                           "More than %d items have a schema of their own.",
                           LIMIT_SCHEMA_POSITIONS);
    return STATUS_OK;
}

enum status schema_array_items(struct schema_work *work, struct schema_branch *branch,
                               const struct schema_use *use)
{
    if (schema_kind(work->schema, use->value) == JSON_READ_ARRAY)
        TRY(check_list(work->schema, use->value));
    return add_items(work, branch, use);
}

enum status schema_array_prefix_items(struct schema_work *work, struct schema_branch *branch,
                                      const struct schema_use *use)
{
    TRY(check_list(work->schema, use->value));
    return add_items(work, branch, use);
}

enum status schema_array_additional_items(struct schema_work *work, struct schema_branch *branch,
                                          const struct schema_use *use)
{
    return add_items(work, branch, use);
}

/* Some item of the list breaks its schema. */
static enum status deny_list(struct schema_work *work, struct schema_branch *branch, uint32_t list)
{
    TRY(check_list(work->schema, list));
    uint32_t at = list + 1;
    for (uint32_t i = 0; i < schema_value(work->schema, list)->count; i++) {
        struct schema_branch copy = *branch;
        if (copy.shape.items_min <= i)
            copy.shape.items_min = i + 1;
        TRY(schema_branch_array(work, &copy, SCHEMA_ITEM_AT, i,
                                schema_claim_of(SCHEMA_NOT_VALID, at)));
        TRY(schema_branch_push(work, &copy));
        at = schema_value(work->schema, at)->next;
    }
    branch->is_dead = true;
    return STATUS_OK;
}

/* Some item behind the list breaks the schema of these. */
static enum status deny_rest(struct schema_work *work, struct schema_branch *branch,
                             const struct schema_use *use)
{
    struct items_of items = read_items(work->schema, use->object);
    if (items.rest != use->value) {
        branch->is_dead = true;
        return STATUS_OK;
    }
    if (branch->shape.items_min <= items.count)
        branch->shape.items_min = items.count + 1;
    return schema_branch_array(work, branch, SCHEMA_ITEM_SOME, items.count,
                               schema_claim_of(SCHEMA_NOT_VALID, use->value));
}

enum status schema_array_items_not(struct schema_work *work, struct schema_branch *branch,
                                   const struct schema_use *use)
{
    if (schema_kind(work->schema, use->value) == JSON_READ_ARRAY)
        return deny_list(work, branch, use->value);
    return deny_rest(work, branch, use);
}

enum status schema_array_prefix_items_not(struct schema_work *work, struct schema_branch *branch,
                                          const struct schema_use *use)
{
    return deny_list(work, branch, use->value);
}

enum status schema_array_additional_items_not(struct schema_work *work,
                                              struct schema_branch *branch,
                                              const struct schema_use *use)
{
    return deny_rest(work, branch, use);
}

enum status schema_array_min_items(struct schema_work *work, struct schema_branch *branch,
                                   const struct schema_use *use)
{
    return schema_string_count_least(work->schema, use, &branch->shape.items_min);
}

enum status schema_array_min_items_not(struct schema_work *work, struct schema_branch *branch,
                                       const struct schema_use *use)
{
    return schema_string_count_least_not(work->schema, use, &branch->shape.items_max,
                                         &branch->is_dead);
}

enum status schema_array_max_items(struct schema_work *work, struct schema_branch *branch,
                                   const struct schema_use *use)
{
    return schema_string_count_most(work->schema, use, &branch->shape.items_max);
}

enum status schema_array_max_items_not(struct schema_work *work, struct schema_branch *branch,
                                       const struct schema_use *use)
{
    return schema_string_count_most_not(work->schema, use, &branch->shape.items_min);
}

enum status schema_array_unique_items(struct schema_work *work, struct schema_branch *branch,
                                      const struct schema_use *use)
{
    if (schema_kind(work->schema, use->value) == JSON_READ_TRUE && branch->shape.unique == 0)
        branch->shape.unique = use->value;
    return STATUS_OK;
}

/* Two equal items cannot be written as a rule. */
enum status schema_array_unique_items_not(struct schema_work *work, struct schema_branch *branch,
                                          const struct schema_use *use)
{
    if (schema_kind(work->schema, use->value) == JSON_READ_TRUE)
        schema_branch_narrow(work, branch, use->value);
    branch->is_dead = true;
    return STATUS_OK;
}

static enum status check_unevaluated(struct schema *schema, const struct schema_use *use)
{
    static const char *const applicators[] = {"$ref", "allOf", "anyOf", "oneOf", "not", "if"};
    for (size_t i = 0; i < sizeof applicators / sizeof applicators[0]; i++) {
        if (schema_member(schema, use->object, applicators[i]) != 0)
            return schema_fail(schema, STATUS_UNSUPPORTED, use->value, NULL,
                               "The keyword is not supported beside %s.", applicators[i]);
    }
    return STATUS_OK;
}

enum status schema_array_unevaluated(struct schema_work *work, struct schema_branch *branch,
                                     const struct schema_use *use)
{
    TRY(check_unevaluated(work->schema, use));
    return add_items(work, branch, use);
}

enum status schema_array_unevaluated_not(struct schema_work *work, struct schema_branch *branch,
                                         const struct schema_use *use)
{
    TRY(check_unevaluated(work->schema, use));
    return deny_rest(work, branch, use);
}

/* --- shapes --- */

/* How many items have a place of their own. */
static uint32_t count_places(const struct schema *schema, const struct schema_shape *shape)
{
    uint32_t count = 0;
    for (const struct schema_cell *at = shape->array; at != NULL; at = at->next) {
        uint32_t places = 0;
        if (at->kind == SCHEMA_ITEMS)
            places = read_items(schema, at->a).count;
        else if (at->kind == SCHEMA_ITEMS_EQUAL)
            places = schema_value(schema, at->a)->count;
        else if (at->kind == SCHEMA_ITEM_AT)
            places = at->a + 1;
        else if (at->kind == SCHEMA_ITEM_SOME)
            places = at->a;
        count = places > count ? places : count;
    }
    return count < shape->items_max ? count : shape->items_max;
}

/* The set of the item at `position`; the first one behind all lists stands for the rest. */
static enum status item_set(struct schema *schema, const struct schema_shape *shape,
                            uint32_t position, bool is_rest, schema_set_id *out)
{
    const struct schema_cell *claims = NULL; /* the cells are newest first, so this is in order */
    uint32_t count = 0;
    for (const struct schema_cell *at = shape->array; at != NULL; at = at->next) {
        uint32_t index = 0;
        schema_claim claim = at->b;
        TRY(schema_spend(schema, 1));
        if (at->kind == SCHEMA_ITEMS) {
            struct items_of items = read_items(schema, at->a);
            index = is_rest ? items.rest : item_schema(schema, &items, position);
            claim = schema_claim_of(SCHEMA_VALID, index);
        } else if (at->kind == SCHEMA_ITEMS_EQUAL && !is_rest) {
            struct items_of items = {.list = at->a, .count = schema_value(schema, at->a)->count};
            index = item_schema(schema, &items, position);
            claim = schema_claim_of(SCHEMA_EQUAL, index);
        } else if (at->kind == SCHEMA_ITEM_AT && !is_rest && at->a == position) {
            index = 1;
        }
        if (index == 0)
            continue;
        TRY(schema_cell_push(schema, &claims, 0, claim, 0));
        count++;
    }
    schema_claim *list = schema_take(schema, (count + 1) * sizeof *list);
    if (list == NULL)
        return schema_no_room(schema);
    for (uint32_t i = 0; i < count; i++, claims = claims->next)
        list[i] = claims->a;
    return schema_set_of(schema, list, count, out);
}

/* An item that must break a claim, at the end of those with places of their own. */
static enum status some_item(struct schema *schema, struct schema_shape *shape,
                             struct schema_items *items)
{
    items->some = SCHEMA_SET_ANY;
    for (const struct schema_cell *at = shape->array; at != NULL; at = at->next) {
        if (at->kind != SCHEMA_ITEM_SOME)
            continue;
        if (items->some != SCHEMA_SET_ANY || shape->items_max != UINT32_MAX) {
            schema_narrow(schema, schema_claim_index(at->b));
            shape->types &= (uint8_t)~SCHEMA_ARRAY;
            return STATUS_OK;
        }
        const struct schema_set *rest = &schema->sets[items->rest];
        schema_claim *list = schema_take(schema, (rest->count + 1) * sizeof *list);
        if (list == NULL)
            return schema_no_room(schema);
        for (uint32_t i = 0; i < rest->count; i++)
            list[i] = rest->claims[i];
        list[rest->count] = at->b;
        TRY(schema_set_of(schema, list, rest->count + 1, &items->some));
    }
    return STATUS_OK;
}

static enum status work_out(struct schema *schema, struct schema_shape *shape, uint32_t depth)
{
    struct schema_items *items = schema_take(schema, sizeof *items);
    uint32_t count = count_places(schema, shape);
    schema_set_id *places = schema_take(schema, (count + 1) * sizeof *places);
    if (items == NULL || places == NULL)
        return schema_no_room(schema);
    *items = (struct schema_items){
        .at = places, .count = count, .min = shape->items_min, .max = shape->items_max};
    shape->items = items;
    bool is_empty;
    for (uint32_t i = 0; i < count; i++) {
        TRY(item_set(schema, shape, i, false, &places[i]));
        TRY(schema->look(schema, places[i], depth + 1, &is_empty));
        if (is_empty && i < items->max)
            items->max = i;
    }
    TRY(item_set(schema, shape, count, true, &items->rest));
    TRY(schema->look(schema, items->rest, depth + 1, &is_empty));
    if (is_empty && count < items->max)
        items->max = count;
    TRY(some_item(schema, shape, items));
    if (items->some != SCHEMA_SET_ANY) {
        TRY(schema->look(schema, items->some, depth + 1, &is_empty));
        if (is_empty || items->max <= count)
            shape->types &= (uint8_t)~SCHEMA_ARRAY;
    }
    if (items->min > items->max)
        shape->types &= (uint8_t)~SCHEMA_ARRAY;
    return STATUS_OK;
}

enum status schema_array_settle(struct schema *schema, struct schema_shape *shape, uint32_t depth)
{
    if ((shape->types & SCHEMA_ARRAY) == 0)
        return STATUS_OK;
    if (shape->items_min > shape->items_max) {
        shape->types &= (uint8_t)~SCHEMA_ARRAY;
        return STATUS_OK;
    }
    bool is_free = shape->array == NULL && shape->items_min == 0 &&
                   shape->items_max == UINT32_MAX && shape->unique == 0;
    TRY(work_out(schema, shape, depth));
    shape->items->is_free = is_free;
    return STATUS_OK;
}
