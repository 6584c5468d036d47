/* schema_keyword: what each keyword of a schema does (schema_keywords.def).
 *
 * Owns:     the table of keywords.
 * Thread:   any.
 * Cost:     a look-up compares the name with those of the same length.
 * Not here: the functions of the rows, which stand in the file of their group.
 */
#pragma once

#include "engine/schema/schema_branch.h"

struct schema_keyword {
    const char *name;
    /* Merges the keyword into the branch. NULL: it says nothing by itself. */
    enum status (*apply)(struct schema_work *work, struct schema_branch *branch,
                         const struct schema_use *use);
    /* Merges its contrary into the branch, which is a copy for this keyword alone, and whose types
     * are those of `types`. Where several things can break the keyword, the function pushes a
     * branch for each and calls the given one dead. NULL: it cannot be broken. */
    enum status (*deny)(struct schema_work *work, struct schema_branch *branch,
                        const struct schema_use *use);
    uint8_t types; /* to which it applies */
    bool is_refused;
};

/* Returns the row of a keyword, or NULL. A name that begins with "x-" is a note. */
const struct schema_keyword *schema_keyword_find(struct slice name);
