#include "engine/schema/schema_value.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_number.h"
#include "engine/schema/schema_text.h"

/* The values of an enum that are neither arrays nor objects. */
struct scalars {
    uint8_t types;
    regex_node_id texts;         /* characters of its strings */
    regex_node_id numbers;       /* as they are written */
    regex_node_id equal_numbers; /* in all ways in which they can be written */
    uint32_t others;             /* arrays and objects */
};

static bool is_scalar(const struct schema *schema, uint32_t index)
{
    enum json_read_kind kind = schema_kind(schema, index);
    return kind != JSON_READ_ARRAY && kind != JSON_READ_OBJECT;
}

static uint8_t type_of(struct schema *schema, uint32_t index)
{
    switch (schema_kind(schema, index)) {
    case JSON_READ_NULL:
        return SCHEMA_NULL;
    case JSON_READ_FALSE:
        return SCHEMA_FALSE;
    case JSON_READ_TRUE:
        return SCHEMA_TRUE;
    case JSON_READ_STRING:
        return SCHEMA_STRING;
    case JSON_READ_ARRAY:
        return SCHEMA_ARRAY;
    case JSON_READ_OBJECT:
        return SCHEMA_OBJECT;
    default:
        return schema_number_types(schema, index);
    }
}

static enum status read_enum(struct schema *schema, uint32_t index, struct scalars *out)
{
    uint32_t count = schema_value(schema, index)->count;
    if (schema_kind(schema, index) != JSON_READ_ARRAY)
        return schema_fail(schema, STATUS_INVALID, index, NULL, "An array of values is needed.");
    if (count > LIMIT_SCHEMA_ENUM)
        return schema_fail(schema, STATUS_LIMIT, index, NULL, "An enum has more than %d values.",
                           LIMIT_SCHEMA_ENUM);
    TRY(schema_spend(schema, count));
    struct schema_text_many texts, numbers, equal_numbers;
    TRY(schema_text_many_begin(schema, count, &texts));
    TRY(schema_text_many_begin(schema, count, &numbers));
    TRY(schema_text_many_begin(schema, count, &equal_numbers));
    *out = (struct scalars){0};
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t types = type_of(schema, at);
        if (is_scalar(schema, at))
            out->types |= types;
        else
            out->others++;
        if (types == SCHEMA_STRING)
            schema_text_many_add(
                &texts, regex_text(schema->regexes, json_read_text(schema_value(schema, at))));
        if ((types & SCHEMA_NUMBER) != 0) {
            schema_text_many_add(&numbers, schema_number_text(schema, at));
            schema_text_many_add(&equal_numbers, schema_number_equal(schema, at));
        }
        at = schema_value(schema, at)->next;
    }
    out->texts = schema_text_many_or(schema, &texts);
    out->numbers = schema_text_many_or(schema, &numbers);
    out->equal_numbers = schema_text_many_or(schema, &equal_numbers);
    return STATUS_OK;
}

static void merge_scalars(struct schema *schema, struct schema_shape *shape,
                          const struct scalars *scalars)
{
    shape->types &= scalars->types;
    if ((shape->types & SCHEMA_STRING) != 0)
        shape->characters = regex_and(schema->regexes, shape->characters, scalars->texts);
    if ((shape->types & SCHEMA_NUMBER) != 0)
        schema_number_and(schema, shape, scalars->numbers);
}

enum status schema_value_enum(struct schema_work *work, struct schema_branch *branch,
                              const struct schema_use *use)
{
    struct scalars scalars;
    TRY(read_enum(work->schema, use->value, &scalars));
    if (branch->shape.values == 0)
        branch->shape.values = use->value;
    if (scalars.others > 0)
        return schema_branch_add(work, branch, schema_claim_of(SCHEMA_ENUM, use->value));
    merge_scalars(work->schema, &branch->shape, &scalars);
    branch->is_dead = branch->shape.types == 0;
    return STATUS_OK;
}

enum status schema_value_enum_split(struct schema_work *work, const struct schema_branch *branch,
                                    uint32_t index)
{
    struct schema *schema = work->schema;
    struct scalars scalars;
    TRY(read_enum(schema, index, &scalars));
    struct schema_branch copy = *branch;
    merge_scalars(schema, &copy.shape, &scalars);
    if (copy.shape.types != 0)
        TRY(schema_branch_push(work, &copy));
    work->widest = work->widest > scalars.others ? work->widest : scalars.others;
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < schema_value(schema, index)->count; i++) {
        if (!is_scalar(schema, at) && (branch->shape.types & type_of(schema, at)) != 0)
            TRY(schema_branch_push_claim(work, branch, schema_claim_of(SCHEMA_EQUAL, at)));
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

enum status schema_value_enum_not(struct schema_work *work, struct schema_branch *branch,
                                  const struct schema_use *use)
{
    struct schema *schema = work->schema;
    struct schema_shape *shape = &branch->shape;
    struct scalars scalars;
    TRY(read_enum(schema, use->value, &scalars));
    shape->types &= (uint8_t) ~(scalars.types & (SCHEMA_NULL | SCHEMA_BOOLEAN));
    if ((scalars.types & SCHEMA_STRING) != 0)
        shape->characters = regex_and(schema->regexes, shape->characters,
                                      regex_not(schema->regexes, scalars.texts));
    if ((scalars.types & SCHEMA_NUMBER) != 0)
        schema_number_and_not(schema, shape, scalars.equal_numbers);
    uint32_t at = use->value + 1;
    for (uint32_t i = 0; i < schema_value(schema, use->value)->count; i++) {
        if (!is_scalar(schema, at))
            TRY(schema_branch_add(work, branch, schema_claim_of(SCHEMA_NOT_EQUAL, at)));
        at = schema_value(schema, at)->next;
    }
    branch->is_dead = shape->types == 0;
    return STATUS_OK;
}

enum status schema_value_const(struct schema_work *work, struct schema_branch *branch,
                               const struct schema_use *use)
{
    return schema_branch_add(work, branch, schema_claim_of(SCHEMA_EQUAL, use->value));
}

enum status schema_value_const_not(struct schema_work *work, struct schema_branch *branch,
                                   const struct schema_use *use)
{
    return schema_branch_add(work, branch, schema_claim_of(SCHEMA_NOT_EQUAL, use->value));
}

enum status schema_value_equal(struct schema_work *work, struct schema_branch *branch,
                               uint32_t index)
{
    struct schema *schema = work->schema;
    struct schema_shape *shape = &branch->shape;
    uint32_t count = schema_value(schema, index)->count;
    shape->types &= type_of(schema, index);
    shape->values = index;
    if (shape->types == 0) {
        branch->is_dead = true;
        return STATUS_OK;
    }
    switch (schema_kind(schema, index)) {
    case JSON_READ_INTEGER:
    case JSON_READ_FLOAT:
        schema_number_and(schema, shape, schema_number_text(schema, index));
        return STATUS_OK;
    case JSON_READ_STRING:
        shape->characters =
            regex_and(schema->regexes, shape->characters,
                      regex_text(schema->regexes, json_read_text(schema_value(schema, index))));
        return STATUS_OK;
    case JSON_READ_ARRAY:
        branch->is_dead = count < shape->items_min || count > shape->items_max;
        shape->items_min = count;
        shape->items_max = count;
        return schema_branch_array(work, branch, SCHEMA_ITEMS_EQUAL, index, 0);
    case JSON_READ_OBJECT:
        return schema_branch_object(work, branch, SCHEMA_MEMBERS_EQUAL, index, 0);
    default:
        return STATUS_OK;
    }
}

enum status schema_value_not_equal(struct schema_work *work, struct schema_branch *branch,
                                   uint32_t index)
{
    struct schema *schema = work->schema;
    struct schema_shape *shape = &branch->shape;
    switch (schema_kind(schema, index)) {
    case JSON_READ_INTEGER:
    case JSON_READ_FLOAT:
        schema_number_and_not(schema, shape, schema_number_equal(schema, index));
        return STATUS_OK;
    case JSON_READ_STRING: {
        regex_node_id text =
            regex_text(schema->regexes, json_read_text(schema_value(schema, index)));
        shape->characters =
            regex_and(schema->regexes, shape->characters, regex_not(schema->regexes, text));
        return STATUS_OK;
    }
    case JSON_READ_ARRAY:
    case JSON_READ_OBJECT:
        if ((shape->types & type_of(schema, index)) == 0)
            return STATUS_OK;
        return schema_branch_add(work, branch, schema_claim_of(SCHEMA_NOT_EQUAL_IN, index));
    default:
        shape->types &= (uint8_t)~type_of(schema, index);
        branch->is_dead = shape->types == 0;
        return STATUS_OK;
    }
}

/* An array differs by its length or by an item. */
static enum status split_array(struct schema_work *work, const struct schema_branch *branch,
                               uint32_t index)
{
    struct schema *schema = work->schema;
    uint32_t count = schema_value(schema, index)->count;
    struct schema_branch copy = *branch;
    if (copy.shape.items_min <= count)
        copy.shape.items_min = count + 1;
    TRY(schema_branch_push(work, &copy));
    copy = *branch;
    if (count > 0 && copy.shape.items_max >= count) {
        copy.shape.items_max = count - 1;
        TRY(schema_branch_push(work, &copy));
    }
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < count; i++) {
        copy = *branch;
        if (copy.shape.items_min <= i)
            copy.shape.items_min = i + 1;
        TRY(schema_branch_array(work, &copy, SCHEMA_ITEM_AT, i,
                                schema_claim_of(SCHEMA_NOT_EQUAL, at)));
        TRY(schema_branch_push(work, &copy));
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

/* An object differs by a name that is missing, by a value, or by having more members. */
static enum status split_object(struct schema_work *work, const struct schema_branch *branch,
                                uint32_t index)
{
    struct schema *schema = work->schema;
    uint32_t count = schema_value(schema, index)->count;
    struct schema_branch copy = *branch;
    if (copy.shape.members_min <= count)
        copy.shape.members_min = count + 1;
    TRY(schema_branch_push(work, &copy));
    uint32_t name = index + 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t value = schema_value(schema, name)->next;
        copy = *branch;
        TRY(schema_branch_object(work, &copy, SCHEMA_FORBIDDEN, name, 0));
        TRY(schema_branch_push(work, &copy));
        copy = *branch;
        TRY(schema_branch_object(work, &copy, SCHEMA_REQUIRED, name, 0));
        TRY(schema_branch_object(work, &copy, SCHEMA_MEMBER, name,
                                 schema_claim_of(SCHEMA_NOT_EQUAL, value)));
        TRY(schema_branch_push(work, &copy));
        name = schema_value(schema, value)->next;
    }
    return STATUS_OK;
}

enum status schema_value_not_equal_split(struct schema_work *work,
                                         const struct schema_branch *branch, uint32_t index)
{
    uint8_t type = type_of(work->schema, index);
    struct schema_branch other = *branch;
    other.shape.types &= (uint8_t)~type;
    if (other.shape.types != 0)
        TRY(schema_branch_push(work, &other));
    struct schema_branch same = *branch;
    same.shape.types &= type;
    if (type == SCHEMA_ARRAY)
        return split_array(work, &same, index);
    return split_object(work, &same, index);
}
