#include "engine/schema/schema_branch.h"

#include "config/base/limits_schema.h"
#include "config/base/mem.h"
#include "engine/schema/schema_text.h"

void schema_branch_begin(const struct schema *schema, struct schema_branch *branch)
{
    *branch = (struct schema_branch){.shape = {
                                         .types = SCHEMA_ALL,
                                         .characters = schema->text->any_characters,
                                         .length_max = UINT32_MAX,
                                         .range = SCHEMA_RANGE_ALL,
                                         .number = SCHEMA_REGEX_UNKNOWN,
                                         .items_max = UINT32_MAX,
                                         .members_max = UINT32_MAX,
                                     }};
}

uint32_t schema_branch_place(const struct schema_work *work)
{
    const struct schema_set *set = &work->schema->sets[work->set];
    return set->count > 0 ? schema_claim_index(set->claims[0]) : 0;
}

enum status schema_branch_push(struct schema_work *work, const struct schema_branch *branch)
{
    if (work->count == LIMIT_SCHEMA_BRANCHES + work->widest)
        return schema_fail(work->schema, STATUS_LIMIT, schema_branch_place(work), NULL,
                           "The value has more than %d alternatives.", LIMIT_SCHEMA_BRANCHES);
    if (work->count == work->capacity) {
        uint32_t capacity = work->capacity == 0 ? 8 : work->capacity * 2;
        struct schema_branch *stack = mem_realloc(work->stack, capacity * sizeof *stack);
        if (stack == NULL)
            FAIL(STATUS_NO_MEMORY, "no memory for the alternatives of a schema");
        work->stack = stack;
        work->capacity = capacity;
    }
    TRY(schema_spend(work->schema, 8));
    work->stack[work->count++] = *branch;
    return STATUS_OK;
}

enum status schema_branch_push_claim(struct schema_work *work, const struct schema_branch *branch,
                                     schema_claim claim)
{
    struct schema_branch copy = *branch;
    TRY(schema_branch_add(work, &copy, claim));
    return schema_branch_push(work, &copy);
}

/* Appends to a list that other branches share: its cells are copied. */
static enum status append(struct schema *schema, const struct schema_cell **list,
                          schema_claim claim)
{
    const struct schema_cell *reversed = NULL;
    for (const struct schema_cell *at = *list; at != NULL; at = at->next)
        TRY(schema_cell_push(schema, &reversed, 0, at->a, 0));
    TRY(schema_cell_push(schema, &reversed, 0, claim, 0));
    *list = NULL;
    for (const struct schema_cell *at = reversed; at != NULL; at = at->next)
        TRY(schema_cell_push(schema, list, 0, at->a, 0));
    return STATUS_OK;
}

enum status schema_branch_add(struct schema_work *work, struct schema_branch *branch,
                              schema_claim claim)
{
    if (!schema_claim_is_choice(claim))
        return schema_cell_push(work->schema, &branch->now, 0, claim, 0);
    return append(work->schema, &branch->later, claim);
}

void schema_branch_narrow(struct schema_work *work, struct schema_branch *branch, uint32_t index)
{
    schema_narrow(work->schema, index);
    branch->is_dead = true;
}

enum status schema_branch_array(struct schema_work *work, struct schema_branch *branch,
                                enum schema_array_cell kind, uint32_t a, uint32_t b)
{
    return schema_cell_push(work->schema, &branch->shape.array, kind, a, b);
}

enum status schema_branch_object(struct schema_work *work, struct schema_branch *branch,
                                 enum schema_object_cell kind, uint32_t a, uint32_t b)
{
    return schema_cell_push(work->schema, &branch->shape.object, kind, a, b);
}
