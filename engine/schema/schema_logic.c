#include "engine/schema/schema_logic.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_ref.h"

static schema_claim valid(uint32_t index)
{
    return schema_claim_of(SCHEMA_VALID, index);
}

static schema_claim not_valid(uint32_t index)
{
    return schema_claim_of(SCHEMA_NOT_VALID, index);
}

/* --- $ref --- */

enum status schema_logic_ref(struct schema_work *work, struct schema_branch *branch,
                             const struct schema_use *use)
{
    uint32_t target;
    TRY(schema_ref_find(work->schema, use->object, use->value, &target));
    return schema_branch_add(work, branch, valid(target));
}

enum status schema_logic_ref_not(struct schema_work *work, struct schema_branch *branch,
                                 const struct schema_use *use)
{
    uint32_t target;
    TRY(schema_ref_find(work->schema, use->object, use->value, &target));
    return schema_branch_add(work, branch, not_valid(target));
}

/* --- type --- */

static enum status read_type(struct schema *schema, uint32_t index, uint8_t *types)
{
    static const struct {
        const char *name;
        uint8_t types;
    } names[] = {
        {"null", SCHEMA_NULL},     {"boolean", SCHEMA_BOOLEAN}, {"integer", SCHEMA_INTEGER},
        {"number", SCHEMA_NUMBER}, {"string", SCHEMA_STRING},   {"array", SCHEMA_ARRAY},
        {"object", SCHEMA_OBJECT},
    };
    if (schema_kind(schema, index) == JSON_READ_STRING) {
        struct slice name = json_read_text(schema_value(schema, index));
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (slice_is(name, names[i].name)) {
                *types |= names[i].types;
                return STATUS_OK;
            }
        }
    }
    return schema_fail(schema, STATUS_INVALID, index, NULL,
                       "A type is null, boolean, integer, number, string, array or object.");
}

static enum status read_types(struct schema *schema, uint32_t index, uint8_t *types)
{
    *types = 0;
    if (schema_kind(schema, index) != JSON_READ_ARRAY)
        return read_type(schema, index, types);
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < schema_value(schema, index)->count; i++) {
        TRY(read_type(schema, at, types));
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

enum status schema_logic_type(struct schema_work *work, struct schema_branch *branch,
                              const struct schema_use *use)
{
    uint8_t types;
    TRY(read_types(work->schema, use->value, &types));
    branch->shape.types &= types;
    return STATUS_OK;
}

enum status schema_logic_type_not(struct schema_work *work, struct schema_branch *branch,
                                  const struct schema_use *use)
{
    uint8_t types;
    TRY(read_types(work->schema, use->value, &types));
    branch->shape.types &= (uint8_t)~types;
    branch->is_dead = branch->shape.types == 0;
    return STATUS_OK;
}

/* --- allOf, anyOf, oneOf, not --- */

static enum status check_array(struct schema *schema, const struct schema_use *use)
{
    if (schema_kind(schema, use->value) == JSON_READ_ARRAY &&
        schema_value(schema, use->value)->count > 0)
        return STATUS_OK;
    return schema_fail(schema, STATUS_INVALID, use->value, NULL, "An array of schemas is needed.");
}

/* Adds a claim of this kind about each schema of an array, so that the first comes first. */
static enum status add_each(struct schema_work *work, struct schema_branch *branch, uint32_t array,
                            enum schema_claim_kind kind)
{
    const struct schema_cell *reversed = NULL;
    uint32_t at = array + 1;
    for (uint32_t i = 0; i < schema_value(work->schema, array)->count; i++) {
        TRY(schema_cell_push(work->schema, &reversed, 0, schema_claim_of(kind, at), 0));
        at = schema_value(work->schema, at)->next;
    }
    for (; reversed != NULL; reversed = reversed->next)
        TRY(schema_branch_add(work, branch, reversed->a));
    return STATUS_OK;
}

enum status schema_logic_all_of(struct schema_work *work, struct schema_branch *branch,
                                const struct schema_use *use)
{
    TRY(check_array(work->schema, use));
    return add_each(work, branch, use->value, SCHEMA_VALID);
}

enum status schema_logic_all_of_not(struct schema_work *work, struct schema_branch *branch,
                                    const struct schema_use *use)
{
    TRY(check_array(work->schema, use));
    return schema_branch_add(work, branch, schema_claim_of(SCHEMA_SOME_NOT, use->value));
}

enum status schema_logic_any_of(struct schema_work *work, struct schema_branch *branch,
                                const struct schema_use *use)
{
    TRY(check_array(work->schema, use));
    return schema_branch_add(work, branch, schema_claim_of(SCHEMA_SOME, use->value));
}

enum status schema_logic_any_of_not(struct schema_work *work, struct schema_branch *branch,
                                    const struct schema_use *use)
{
    TRY(check_array(work->schema, use));
    return add_each(work, branch, use->value, SCHEMA_NOT_VALID);
}

enum status schema_logic_one_of(struct schema_work *work, struct schema_branch *branch,
                                const struct schema_use *use)
{
    TRY(check_array(work->schema, use));
    return schema_branch_add(work, branch, schema_claim_of(SCHEMA_ONE, use->value));
}

enum status schema_logic_one_of_not(struct schema_work *work, struct schema_branch *branch,
                                    const struct schema_use *use)
{
    TRY(check_array(work->schema, use));
    return schema_branch_add(work, branch, schema_claim_of(SCHEMA_NOT_ONE, use->value));
}

enum status schema_logic_not(struct schema_work *work, struct schema_branch *branch,
                             const struct schema_use *use)
{
    return schema_branch_add(work, branch, not_valid(use->value));
}

enum status schema_logic_not_not(struct schema_work *work, struct schema_branch *branch,
                                 const struct schema_use *use)
{
    return schema_branch_add(work, branch, valid(use->value));
}

enum status schema_logic_some(struct schema_work *work, const struct schema_branch *branch,
                              uint32_t index, enum schema_claim_kind kind)
{
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < schema_value(work->schema, index)->count; i++) {
        TRY(schema_branch_push_claim(work, branch, schema_claim_of(kind, at)));
        at = schema_value(work->schema, at)->next;
    }
    return STATUS_OK;
}

/* Whether it is known that no value is valid under both. Two levels are looked at however deep the
 * work is, because overlapping branches cost more than that. */
static enum status are_disjoint(struct schema_work *work, uint32_t a, uint32_t b, bool *out)
{
    const schema_claim claims[] = {valid(a < b ? a : b), valid(a < b ? b : a)};
    schema_set_id both;
    TRY(schema_set_of(work->schema, claims, 2, &both));
    uint32_t depth = work->depth + 1;
    if (depth > LIMIT_SCHEMA_LOOK_AHEAD - 2)
        depth = LIMIT_SCHEMA_LOOK_AHEAD - 2;
    return work->schema->look(work->schema, both, depth, out);
}

enum status schema_logic_one(struct schema_work *work, const struct schema_branch *branch,
                             uint32_t index)
{
    struct schema *schema = work->schema;
    uint32_t count = schema_value(schema, index)->count;
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < count; i++) {
        struct schema_branch copy = *branch;
        uint32_t other = index + 1;
        for (uint32_t j = 0; j < count; j++) {
            bool is_disjoint = true;
            if (j != i)
                TRY(are_disjoint(work, at, other, &is_disjoint));
            if (!is_disjoint)
                TRY(schema_branch_add(work, &copy, not_valid(other)));
            other = schema_value(schema, other)->next;
        }
        TRY(schema_branch_push_claim(work, &copy, valid(at)));
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

enum status schema_logic_not_one(struct schema_work *work, const struct schema_branch *branch,
                                 uint32_t index)
{
    struct schema *schema = work->schema;
    uint32_t count = schema_value(schema, index)->count;
    struct schema_branch none = *branch;
    TRY(add_each(work, &none, index, SCHEMA_NOT_VALID));
    TRY(schema_branch_push(work, &none));
    uint32_t at = index + 1;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = schema_value(schema, at)->next;
        for (uint32_t j = i + 1; j < count; j++) {
            struct schema_branch copy = *branch;
            TRY(schema_branch_add(work, &copy, valid(other)));
            TRY(schema_branch_push_claim(work, &copy, valid(at)));
            other = schema_value(schema, other)->next;
        }
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

/* --- if --- */

enum status schema_logic_if(struct schema_work *work, struct schema_branch *branch,
                            const struct schema_use *use)
{
    if (schema_member(work->schema, use->object, "then") == 0 &&
        schema_member(work->schema, use->object, "else") == 0)
        return STATUS_OK;
    return schema_branch_add(work, branch, schema_claim_of(SCHEMA_IF, use->object));
}

enum status schema_logic_if_not(struct schema_work *work, struct schema_branch *branch,
                                const struct schema_use *use)
{
    return schema_branch_add(work, branch, schema_claim_of(SCHEMA_NOT_IF, use->object));
}

enum status schema_logic_if_split(struct schema_work *work, const struct schema_branch *branch,
                                  uint32_t index, enum schema_claim_kind kind)
{
    struct schema *schema = work->schema;
    uint32_t condition = schema_member(schema, index, "if");
    uint32_t ways[] = {schema_member(schema, index, "then"), schema_member(schema, index, "else")};
    for (uint32_t i = 0; i < 2; i++) {
        struct schema_branch copy = *branch;
        if (ways[i] == 0 && kind == SCHEMA_NOT_VALID)
            continue;
        if (ways[i] != 0)
            TRY(schema_branch_add(work, &copy, schema_claim_of(kind, ways[i])));
        TRY(schema_branch_push_claim(work, &copy,
                                     i == 0 ? valid(condition) : not_valid(condition)));
    }
    return STATUS_OK;
}

/* --- dependencies --- */

static enum status check_object(struct schema *schema, const struct schema_use *use)
{
    if (schema_kind(schema, use->value) == JSON_READ_OBJECT)
        return STATUS_OK;
    return schema_fail(schema, STATUS_INVALID, use->value, NULL, "An object is needed.");
}

enum status schema_logic_depend(struct schema_work *work, struct schema_branch *branch,
                                const struct schema_use *use)
{
    TRY(check_object(work->schema, use));
    uint32_t name = use->value + 1;
    for (uint32_t i = 0; i < schema_value(work->schema, use->value)->count; i++) {
        TRY(schema_branch_add(work, branch, schema_claim_of(SCHEMA_DEPEND, name)));
        name = schema_value(work->schema, schema_value(work->schema, name)->next)->next;
    }
    return STATUS_OK;
}

/* The names that must be there, by a list of names or by one name (draft 3). */
static enum status add_required(struct schema_work *work, struct schema_branch *branch,
                                uint32_t index)
{
    struct schema *schema = work->schema;
    bool is_array = schema_kind(schema, index) == JSON_READ_ARRAY;
    uint32_t at = is_array ? index + 1 : index;
    uint32_t count = is_array ? schema_value(schema, index)->count : 1;
    for (uint32_t i = 0; i < count; i++) {
        if (schema_kind(schema, at) != JSON_READ_STRING)
            return schema_fail(schema, STATUS_INVALID, at, NULL,
                               "A dependency is a schema or an array of names.");
        TRY(schema_branch_object(work, branch, SCHEMA_REQUIRED, at, 0));
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

static bool is_schema(const struct schema *schema, uint32_t index)
{
    enum json_read_kind kind = schema_kind(schema, index);
    return kind == JSON_READ_OBJECT || kind == JSON_READ_TRUE || kind == JSON_READ_FALSE;
}

/* Either the name is not there, or what depends on it holds. */
enum status schema_logic_depend_split(struct schema_work *work, const struct schema_branch *branch,
                                      uint32_t index)
{
    struct schema *schema = work->schema;
    uint32_t needed = schema_value(schema, index)->next;
    struct schema_branch without = *branch;
    TRY(schema_branch_object(work, &without, SCHEMA_FORBIDDEN, index, 0));
    TRY(schema_branch_push(work, &without));
    struct schema_branch with = *branch;
    with.shape.types &= SCHEMA_OBJECT;
    TRY(schema_branch_object(work, &with, SCHEMA_REQUIRED, index, 0));
    if (is_schema(schema, needed))
        return schema_branch_push_claim(work, &with, valid(needed));
    TRY(add_required(work, &with, needed));
    return schema_branch_push(work, &with);
}

/* The name at `index` is there, and the name at `needed` is not. */
static enum status push_missing(struct schema_work *work, const struct schema_branch *branch,
                                uint32_t index, uint32_t needed)
{
    struct schema_branch copy = *branch;
    TRY(schema_branch_object(work, &copy, SCHEMA_REQUIRED, index, 0));
    TRY(schema_branch_object(work, &copy, SCHEMA_FORBIDDEN, needed, 0));
    return schema_branch_push(work, &copy);
}

static enum status deny_dependency(struct schema_work *work, const struct schema_branch *branch,
                                   uint32_t index)
{
    struct schema *schema = work->schema;
    uint32_t needed = schema_value(schema, index)->next;
    if (is_schema(schema, needed)) {
        struct schema_branch copy = *branch;
        TRY(schema_branch_object(work, &copy, SCHEMA_REQUIRED, index, 0));
        return schema_branch_push_claim(work, &copy, not_valid(needed));
    }
    if (schema_kind(schema, needed) != JSON_READ_ARRAY)
        return push_missing(work, branch, index, needed);
    uint32_t at = needed + 1;
    for (uint32_t i = 0; i < schema_value(schema, needed)->count; i++) {
        TRY(push_missing(work, branch, index, at));
        at = schema_value(schema, at)->next;
    }
    return STATUS_OK;
}

enum status schema_logic_depend_not(struct schema_work *work, struct schema_branch *branch,
                                    const struct schema_use *use)
{
    TRY(check_object(work->schema, use));
    uint32_t name = use->value + 1;
    for (uint32_t i = 0; i < schema_value(work->schema, use->value)->count; i++) {
        TRY(deny_dependency(work, branch, name));
        name = schema_value(work->schema, schema_value(work->schema, name)->next)->next;
    }
    branch->is_dead = true;
    return STATUS_OK;
}
