/* schema_branch: the alternatives that one set is being merged into, as a stack.
 *
 * Owns:     the stack of a merge.
 * Thread:   that of the compilation.
 * Cost:     a branch is copied when it splits; its lists are shared.
 * Not here: what claims and keywords do to a branch (schema_merge and the files of keywords).
 */
#pragma once

#include "engine/schema/schema_shape.h"

struct schema_branch {
    struct schema_shape shape;
    const struct schema_cell *now;   /* claims that come next */
    const struct schema_cell *later; /* choices, first in, first out */
    const struct schema_cell *done;  /* claims that were looked at */
    uint32_t choices;                /* that were made */
    bool is_dead;                    /* no value matches */
};

struct schema_work {
    struct schema *schema;
    schema_set_id set;
    uint32_t depth; /* below the value that the caller asked for */
    struct schema_branch *stack;
    uint32_t count;
    uint32_t capacity;
    uint32_t widest; /* branches of the choice that had most */
};

/* A keyword where it stands. */
struct schema_use {
    uint32_t object;
    uint32_t name;
    uint32_t value;
};

void schema_branch_begin(const struct schema *schema, struct schema_branch *branch);
/* The schema of the value that is being merged, for errors. */
uint32_t schema_branch_place(const struct schema_work *work);
/* Takes a copy of the branch. */
enum status schema_branch_push(struct schema_work *work, const struct schema_branch *branch);
/* A copy of `branch` with one more claim, or with a cell. */
enum status schema_branch_push_claim(struct schema_work *work, const struct schema_branch *branch,
                                     schema_claim claim);
/* Adds a claim to those that come next, a choice to those that come later. */
enum status schema_branch_add(struct schema_work *work, struct schema_branch *branch,
                              schema_claim claim);
/* Notes that a branch is left out because it cannot be written. */
void schema_branch_narrow(struct schema_work *work, struct schema_branch *branch, uint32_t index);
/* Adds a cell to the array or the object of the branch. */
enum status schema_branch_array(struct schema_work *work, struct schema_branch *branch,
                                enum schema_array_cell kind, uint32_t a, uint32_t b);
enum status schema_branch_object(struct schema_work *work, struct schema_branch *branch,
                                 enum schema_object_cell kind, uint32_t a, uint32_t b);
