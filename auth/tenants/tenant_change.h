/* tenant_change: writes a change in one transaction: its rows, its audit row, the answer that is
 * kept.
 *
 * Owns:     nothing that outlives the call.
 * Thread:   the holder of the directory's `change`.
 * Cost:     one commit with its fsync; none in a dry run.
 * Not here: the rules of changes and the change of memory afterwards (tenant_edit,
 *           tenant_key_edit).
 */
#pragma once

#include "auth/tenants/tenant_directory.h"

struct tenant_change_plan {
    const struct tenant_change *change;
    const char *type;     /* of the audit row */
    const char *subject;  /* an id */
    struct buffer detail; /* tenant_change_plan_init makes it; the commit frees it */
    enum status (*rows)(struct sqlite3 *connection, const void *context);
    const void *context;
};

void tenant_change_plan_init(struct tenant_change_plan *plan, const struct tenant_change *change,
                             const char *type, const char *subject);

/* Writes the rows, the audit row and the change's answer, and commits: all of it or nothing. A dry
 * run does everything and rolls it back. The caller fills its result before the call, because the
 * answer is made from the result. */
enum status tenant_change_commit(struct tenants *tenants, struct tenant_change_plan *plan);

/* CHANGED when the change requires a revision other than this one. */
enum status tenant_change_check_revision(const struct tenant_change *change, int64_t revision);

/* Checks that a name has 1 to LIMIT_NAME_BYTES - 1 bytes of UTF-8 without control characters.
 * INVALID with `param`. */
enum status tenant_change_check_name(const char *param, struct slice name);

/* Copies `text`, which must fit. */
void tenant_change_copy(char *out, size_t capacity, struct slice text);
