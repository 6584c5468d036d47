#include "engine/schema/schema_merge.h"

#include "config/base/limits_schema.h"
#include "config/base/mem.h"
#include "engine/schema/schema_array.h"
#include "engine/schema/schema_branch.h"
#include "engine/schema/schema_keyword.h"
#include "engine/schema/schema_logic.h"
#include "engine/schema/schema_number.h"
#include "engine/schema/schema_object.h"
#include "engine/schema/schema_string.h"
#include "engine/schema/schema_value.h"

/* --- claims that hold together --- */

/* Returns the keyword's row, or NULL where it has no effect. */
static enum status find_keyword(struct schema *schema, const struct schema_use *use,
                                const struct schema_keyword **out)
{
    struct slice name = json_read_text(schema_value(schema, use->name));
    *out = schema_keyword_find(name);
    if (*out == NULL && schema->options->strict)
        return schema_fail(schema, STATUS_UNSUPPORTED, use->value, NULL,
                           "The keyword is not known, and strict is true.");
    if (*out != NULL && (*out)->is_refused)
        return schema_fail(schema, STATUS_UNSUPPORTED, use->value, NULL,
                           "The keyword is not supported.");
    return STATUS_OK;
}

/* Merges the keywords of an object from `name` on. Members come in the order in which the keywords
 * stand, so those of `$ref` and allOf are looked at before the keywords behind them. */
static enum status apply_from(struct schema_work *work, struct schema_branch *branch,
                              uint32_t object, uint32_t name)
{
    struct schema *schema = work->schema;
    uint32_t end = schema_value(schema, object)->next;
    while (name < end && !branch->is_dead) {
        struct schema_use use = {object, name, schema_value(schema, name)->next};
        const struct schema_keyword *keyword;
        TRY(schema_spend(schema, 2));
        TRY(find_keyword(schema, &use, &keyword));
        name = schema_value(schema, use.value)->next;
        if (keyword == NULL || keyword->apply == NULL)
            continue;
        bool is_nested =
            keyword->apply == schema_logic_ref || keyword->apply == schema_logic_all_of;
        if (is_nested && name < end)
            TRY(schema_cell_push(schema, &branch->now, 0, schema_claim_of(SCHEMA_REST, name),
                                 object));
        TRY(keyword->apply(work, branch, &use));
        if (is_nested)
            break;
    }
    return STATUS_OK;
}

static enum status apply_schema(struct schema_work *work, struct schema_branch *branch,
                                uint32_t object)
{
    struct schema *schema = work->schema;
    const struct json_read_value *value = schema_value(schema, object);
    if (value->kind == JSON_READ_TRUE)
        return STATUS_OK;
    if (value->kind == JSON_READ_FALSE) {
        branch->is_dead = true;
        return STATUS_OK;
    }
    if (value->kind != JSON_READ_OBJECT)
        return schema_fail(schema, STATUS_INVALID, object, NULL,
                           "A schema is an object, true or false.");
    return apply_from(work, branch, object, object + 1);
}

static enum status deny_schema(struct schema_work *work, struct schema_branch *branch,
                               uint32_t object)
{
    const struct json_read_value *value = schema_value(work->schema, object);
    if (value->kind == JSON_READ_FALSE)
        return STATUS_OK;
    if (value->kind != JSON_READ_OBJECT || value->count == 0) {
        branch->is_dead = true;
        return STATUS_OK;
    }
    return schema_branch_add(work, branch, schema_claim_of(SCHEMA_DENY, object));
}

/* `object` is that of SCHEMA_REST. */
static enum status apply_claim(struct schema_work *work, struct schema_branch *branch,
                               schema_claim claim, uint32_t object)
{
    uint32_t index = schema_claim_index(claim);
    switch (schema_claim_kind_of(claim)) {
    case SCHEMA_VALID:
        return apply_schema(work, branch, index);
    case SCHEMA_NOT_VALID:
        return deny_schema(work, branch, index);
    case SCHEMA_EQUAL:
        return schema_value_equal(work, branch, index);
    case SCHEMA_NOT_EQUAL:
        return schema_value_not_equal(work, branch, index);
    case SCHEMA_REST:
        return apply_from(work, branch, object, index);
    default:
        ASSERT(false);
    }
    return STATUS_OK;
}

/* Works in all claims that hold together. A claim that was seen before says nothing new, which also
 * ends references in a circle. */
static enum status apply_claims(struct schema_work *work, struct schema_branch *branch)
{
    while (branch->now != NULL && !branch->is_dead) {
        schema_claim claim = branch->now->a;
        uint32_t object = branch->now->b;
        branch->now = branch->now->next;
        bool is_known = false;
        for (const struct schema_cell *at = branch->done; at != NULL; at = at->next) {
            TRY(schema_spend(work->schema, 1));
            is_known = is_known || at->a == claim;
            branch->is_dead = branch->is_dead || (schema_claim_has_contrary(claim) &&
                                                  at->a == schema_claim_contrary(claim));
        }
        if (is_known || branch->is_dead)
            continue;
        TRY(schema_cell_push(work->schema, &branch->done, 0, claim, 0));
        TRY(apply_claim(work, branch, claim, object));
    }
    return STATUS_OK;
}

/* --- choices --- */

/* Clears the types of which no value matches. */
static enum status settle(struct schema_work *work, struct schema_shape *shape)
{
    TRY(schema_string_settle(work->schema, shape));
    TRY(schema_number_settle(work->schema, shape));
    TRY(schema_array_settle(work->schema, shape, work->depth));
    return schema_object_settle(work->schema, shape, work->depth);
}

/* Takes those branches from the stack that no value matches, and all but the first other one: what
 * is left is narrower, and does not multiply. */
static enum status keep_one(struct schema_work *work, uint32_t from, uint32_t object)
{
    uint32_t kept = from;
    for (uint32_t i = from; i < work->count && kept == from; i++) {
        struct schema_branch branch = work->stack[i];
        TRY(apply_claims(work, &branch));
        if (!branch.is_dead)
            TRY(settle(work, &branch.shape));
        if (!branch.is_dead && branch.shape.types != 0)
            work->stack[kept++] = branch;
    }
    if (work->count > kept)
        schema_narrow(work->schema, object);
    work->count = kept;
    return STATUS_OK;
}

/* A branch for each keyword that the value can break. */
static enum status split_deny(struct schema_work *work, const struct schema_branch *branch,
                              uint32_t object)
{
    struct schema *schema = work->schema;
    const struct json_read_value *value = schema_value(schema, object);
    uint32_t from = work->count;
    uint32_t name = object + 1;
    for (uint32_t i = 0; i < value->count; i++) {
        struct schema_use use = {object, name, schema_value(schema, name)->next};
        const struct schema_keyword *keyword;
        TRY(schema_spend(schema, 2));
        TRY(find_keyword(schema, &use, &keyword));
        name = schema_value(schema, use.value)->next;
        if (keyword == NULL || keyword->deny == NULL)
            continue;
        struct schema_branch copy = *branch;
        copy.shape.types &= keyword->types;
        if (copy.shape.types == 0)
            continue;
        TRY(keyword->deny(work, &copy, &use));
        if (!copy.is_dead)
            TRY(schema_branch_push(work, &copy));
    }
    return branch->choices > LIMIT_SCHEMA_CHOICES ? keep_one(work, from, object) : STATUS_OK;
}

static enum status split(struct schema_work *work, const struct schema_branch *branch,
                         schema_claim choice)
{
    uint32_t index = schema_claim_index(choice);
    switch (schema_claim_kind_of(choice)) {
    case SCHEMA_SOME:
        return schema_logic_some(work, branch, index, SCHEMA_VALID);
    case SCHEMA_SOME_NOT:
        return schema_logic_some(work, branch, index, SCHEMA_NOT_VALID);
    case SCHEMA_ONE:
        return schema_logic_one(work, branch, index);
    case SCHEMA_NOT_ONE:
        return schema_logic_not_one(work, branch, index);
    case SCHEMA_IF:
        return schema_logic_if_split(work, branch, index, SCHEMA_VALID);
    case SCHEMA_NOT_IF:
        return schema_logic_if_split(work, branch, index, SCHEMA_NOT_VALID);
    case SCHEMA_DENY:
        return split_deny(work, branch, index);
    case SCHEMA_DEPEND:
        return schema_logic_depend_split(work, branch, index);
    case SCHEMA_ENUM:
        return schema_value_enum_split(work, branch, index);
    case SCHEMA_NOT_EQUAL_IN:
        return schema_value_not_equal_split(work, branch, index);
    default:
        ASSERT(false);
    }
    return STATUS_OK;
}

/* Takes the first choice and pushes its branches, the first of them on top. */
static enum status split_next(struct schema_work *work, struct schema_branch *branch)
{
    schema_claim choice = branch->later->a;
    branch->later = branch->later->next;
    branch->choices++;
    uint32_t from = work->count;
    TRY(split(work, branch, choice));
    uint32_t count = work->count - from;
    if (count > work->widest)
        work->widest = count;
    for (uint32_t i = 0; i < count / 2; i++) {
        struct schema_branch swapped = work->stack[from + i];
        work->stack[from + i] = work->stack[work->count - 1 - i];
        work->stack[work->count - 1 - i] = swapped;
    }
    return STATUS_OK;
}

/* --- shapes --- */

static enum status keep_shape(struct schema_work *work, const struct schema_shape *shape)
{
    struct schema_set *set = &work->schema->sets[work->set];
    if (set->shape_count == LIMIT_SCHEMA_BRANCHES + work->widest)
        return schema_fail(work->schema, STATUS_LIMIT, schema_branch_place(work), NULL,
                           "The value has more than %d alternatives.", LIMIT_SCHEMA_BRANCHES);
    struct schema_shape *kept = schema_take(work->schema, sizeof *kept);
    if (kept == NULL)
        return schema_no_room(work->schema);
    *kept = *shape;
    kept->next = NULL;
    if (set->last == NULL)
        set->shapes = kept;
    else
        set->last->next = kept;
    set->last = kept;
    set->shape_count++;
    return STATUS_OK;
}

static enum status merge_next(struct schema_work *work)
{
    TRY(schema_spend(work->schema, 4));
    struct schema_branch branch = work->stack[--work->count];
    TRY(apply_claims(work, &branch));
    if (branch.is_dead)
        return STATUS_OK;
    if (branch.later == NULL) {
        TRY(settle(work, &branch.shape));
        return branch.shape.types != 0 ? keep_shape(work, &branch.shape) : STATUS_OK;
    }
    if (branch.choices > 0) {
        struct schema_shape trial = branch.shape;
        TRY(settle(work, &trial));
        branch.shape.types = trial.types;
        if (trial.types == 0)
            return STATUS_OK;
    }
    return split_next(work, &branch);
}

enum status schema_merge(struct schema *schema, schema_set_id set, uint32_t depth)
{
    if (schema->sets[set].state != SCHEMA_SET_NEW)
        return STATUS_OK;
    schema->sets[set].state = SCHEMA_SET_MERGING;
    struct schema_work work = {.schema = schema, .set = set, .depth = depth};
    struct schema_branch first;
    schema_branch_begin(schema, &first);
    enum status status = STATUS_OK;
    for (uint32_t i = schema->sets[set].count; i > 0; i--)
        TRY_OUT(schema_branch_add(&work, &first, schema->sets[set].claims[i - 1]));
    TRY_OUT(schema_branch_push(&work, &first));
    while (work.count > 0)
        TRY_OUT(merge_next(&work));
    schema->sets[set].state = SCHEMA_SET_MERGED;
out:
    mem_free(work.stack);
    return status;
}

enum status schema_merge_look(struct schema *schema, schema_set_id set, uint32_t depth,
                              bool *is_empty)
{
    *is_empty = false;
    if (set == SCHEMA_SET_ANY)
        return STATUS_OK;
    if (depth < LIMIT_SCHEMA_LOOK_AHEAD && schema->nesting < LIMIT_SCHEMA_NESTING) {
        schema->nesting++;
        enum status status = schema_merge(schema, set, depth);
        schema->nesting--;
        TRY(status);
    }
    const struct schema_set *at = &schema->sets[set];
    *is_empty = at->state == SCHEMA_SET_MERGED && at->shape_count == 0;
    return STATUS_OK;
}
