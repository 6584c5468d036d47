#include "engine/schema/schema_object.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_members.h"
#include "engine/schema/schema_string.h"

/* One cell stands for all keywords of a schema that speak of members. */
static enum status add_members(struct schema_work *work, struct schema_branch *branch,
                               const struct schema_use *use)
{
    for (const struct schema_cell *at = branch->shape.object; at != NULL; at = at->next) {
        if (at->kind == SCHEMA_MEMBERS && at->a == use->object)
            return STATUS_OK;
    }
    return schema_branch_object(work, branch, SCHEMA_MEMBERS, use->object, 0);
}

static enum status check_object(struct schema *schema, uint32_t index)
{
    if (schema_kind(schema, index) != JSON_READ_OBJECT)
        return schema_fail(schema, STATUS_INVALID, index, NULL, "An object is needed.");
    if (schema_value(schema, index)->count > LIMIT_SCHEMA_PROPERTIES)
        return schema_fail(schema, STATUS_LIMIT, index, NULL, "An object has more than %d members.",
                           LIMIT_SCHEMA_PROPERTIES);
    return STATUS_OK;
}

enum status schema_object_properties(struct schema_work *work, struct schema_branch *branch,
                                     const struct schema_use *use)
{
    TRY(check_object(work->schema, use->value));
    return add_members(work, branch, use);
}

/* Some name is there, and its value breaks the name's schema. */
enum status schema_object_properties_not(struct schema_work *work, struct schema_branch *branch,
                                         const struct schema_use *use)
{
    TRY(check_object(work->schema, use->value));
    uint32_t name = use->value + 1;
    for (uint32_t i = 0; i < schema_value(work->schema, use->value)->count; i++) {
        uint32_t value = schema_value(work->schema, name)->next;
        struct schema_branch copy = *branch;
        TRY(schema_branch_object(work, &copy, SCHEMA_REQUIRED, name, 0));
        TRY(schema_branch_object(work, &copy, SCHEMA_MEMBER, name,
                                 schema_claim_of(SCHEMA_NOT_VALID, value)));
        TRY(schema_branch_push(work, &copy));
        name = schema_value(work->schema, value)->next;
    }
    branch->is_dead = true;
    return STATUS_OK;
}

enum status schema_object_pattern_properties(struct schema_work *work, struct schema_branch *branch,
                                             const struct schema_use *use)
{
    TRY(check_object(work->schema, use->value));
    return add_members(work, branch, use);
}

enum status schema_object_pattern_properties_not(struct schema_work *work,
                                                 struct schema_branch *branch,
                                                 const struct schema_use *use)
{
    TRY(check_object(work->schema, use->value));
    uint32_t name = use->value + 1;
    for (uint32_t i = 0; i < schema_value(work->schema, use->value)->count; i++) {
        uint32_t value = schema_value(work->schema, name)->next;
        struct schema_branch copy = *branch;
        TRY(schema_branch_object(work, &copy, SCHEMA_SOME_LIKE, name,
                                 schema_claim_of(SCHEMA_NOT_VALID, value)));
        TRY(schema_branch_push(work, &copy));
        name = schema_value(work->schema, value)->next;
    }
    branch->is_dead = true;
    return STATUS_OK;
}

enum status schema_object_additional_properties(struct schema_work *work,
                                                struct schema_branch *branch,
                                                const struct schema_use *use)
{
    return add_members(work, branch, use);
}

enum status schema_object_additional_properties_not(struct schema_work *work,
                                                    struct schema_branch *branch,
                                                    const struct schema_use *use)
{
    return schema_branch_object(work, branch, SCHEMA_SOME_OTHER, use->object,
                                schema_claim_of(SCHEMA_NOT_VALID, use->value));
}

static enum status check_unevaluated(struct schema *schema, const struct schema_use *use)
{
    static const char *const applicators[] = {"$ref", "allOf", "anyOf",           "oneOf",
                                              "not",  "if",    "dependentSchemas"};
    for (size_t i = 0; i < sizeof applicators / sizeof applicators[0]; i++) {
        if (schema_member(schema, use->object, applicators[i]) != 0)
            return schema_fail(schema, STATUS_UNSUPPORTED, use->value, NULL,
                               "The keyword is not supported beside %s.", applicators[i]);
    }
    return STATUS_OK;
}

enum status schema_object_unevaluated(struct schema_work *work, struct schema_branch *branch,
                                      const struct schema_use *use)
{
    TRY(check_unevaluated(work->schema, use));
    return add_members(work, branch, use);
}

enum status schema_object_unevaluated_not(struct schema_work *work, struct schema_branch *branch,
                                          const struct schema_use *use)
{
    TRY(check_unevaluated(work->schema, use));
    if (schema_member(work->schema, use->object, "additionalProperties") != 0) {
        branch->is_dead = true;
        return STATUS_OK;
    }
    return schema_branch_object(work, branch, SCHEMA_SOME_OTHER, use->object,
                                schema_claim_of(SCHEMA_NOT_VALID, use->value));
}

/* --- required --- */

static enum status check_names(struct schema *schema, uint32_t index)
{
    enum json_read_kind kind = schema_kind(schema, index);
    if (kind == JSON_READ_TRUE || kind == JSON_READ_FALSE)
        return STATUS_OK; /* draft 3, beside a property; it says nothing here */
    if (kind != JSON_READ_ARRAY)
        return schema_fail(schema, STATUS_INVALID, index, NULL, "An array of names is needed.");
    if (schema_value(schema, index)->count > LIMIT_SCHEMA_PROPERTIES)
        return schema_fail(schema, STATUS_LIMIT, index, NULL, "More than %d names are required.",
                           LIMIT_SCHEMA_PROPERTIES);
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < schema_value(schema, index)->count; i++) {
        if (schema_kind(schema, at) != JSON_READ_STRING)
            return schema_fail(schema, STATUS_INVALID, at, NULL, "An array of names is needed.");
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

static uint32_t count_names(const struct schema *schema, uint32_t index)
{
    return schema_kind(schema, index) == JSON_READ_ARRAY ? schema_value(schema, index)->count : 0;
}

enum status schema_object_required(struct schema_work *work, struct schema_branch *branch,
                                   const struct schema_use *use)
{
    TRY(check_names(work->schema, use->value));
    uint32_t at = use->value + 1;
    for (uint32_t i = 0; i < count_names(work->schema, use->value); i++) {
        TRY(schema_branch_object(work, branch, SCHEMA_REQUIRED, at, 0));
        at = schema_value(work->schema, at)->next;
    }
    return STATUS_OK;
}

/* The first name that is missing, so that the branches exclude each other. */
enum status schema_object_required_not(struct schema_work *work, struct schema_branch *branch,
                                       const struct schema_use *use)
{
    TRY(check_names(work->schema, use->value));
    uint32_t at = use->value + 1;
    for (uint32_t i = 0; i < count_names(work->schema, use->value); i++) {
        struct schema_branch copy = *branch;
        TRY(schema_branch_object(work, &copy, SCHEMA_FORBIDDEN, at, 0));
        TRY(schema_branch_push(work, &copy));
        TRY(schema_branch_object(work, branch, SCHEMA_REQUIRED, at, 0));
        at = schema_value(work->schema, at)->next;
    }
    branch->is_dead = true;
    return STATUS_OK;
}

/* --- names and counts --- */

enum status schema_object_property_names(struct schema_work *work, struct schema_branch *branch,
                                         const struct schema_use *use)
{
    return schema_branch_object(work, branch, SCHEMA_NAMES, 0,
                                schema_claim_of(SCHEMA_VALID, use->value));
}

enum status schema_object_property_names_not(struct schema_work *work, struct schema_branch *branch,
                                             const struct schema_use *use)
{
    return schema_branch_object(work, branch, SCHEMA_SOME_NAME, 0,
                                schema_claim_of(SCHEMA_NOT_VALID, use->value));
}

enum status schema_object_min_properties(struct schema_work *work, struct schema_branch *branch,
                                         const struct schema_use *use)
{
    return schema_string_count_least(work->schema, use, &branch->shape.members_min);
}

enum status schema_object_min_properties_not(struct schema_work *work, struct schema_branch *branch,
                                             const struct schema_use *use)
{
    return schema_string_count_least_not(work->schema, use, &branch->shape.members_max,
                                         &branch->is_dead);
}

enum status schema_object_max_properties(struct schema_work *work, struct schema_branch *branch,
                                         const struct schema_use *use)
{
    return schema_string_count_most(work->schema, use, &branch->shape.members_max);
}

enum status schema_object_max_properties_not(struct schema_work *work, struct schema_branch *branch,
                                             const struct schema_use *use)
{
    return schema_string_count_most_not(work->schema, use, &branch->shape.members_min);
}

/* --- shapes --- */

enum status schema_object_settle(struct schema *schema, struct schema_shape *shape, uint32_t depth)
{
    if ((shape->types & SCHEMA_OBJECT) == 0)
        return STATUS_OK;
    if (shape->members_min > shape->members_max) {
        shape->types &= (uint8_t)~SCHEMA_OBJECT;
        return STATUS_OK;
    }
    return schema_members_work_out(schema, shape, depth);
}
