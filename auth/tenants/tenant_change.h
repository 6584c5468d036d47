/* tenant_change: one transaction: the rows of a change, its audit row, the answer that is kept.
 *
 * Owns:     nothing that outlives the call.
 * Thread:   the holder of the directory's `change`.
 * Cost:     one commit with its fsync; none in a dry run.
 * Not here: what may be changed (tenant_edit, tenant_key_edit), memory afterwards (they too).
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

/* rows, audit row, the change's answer, commit: all or nothing. In a dry run everything is done and
 * taken back. The caller has filled its result before: the answer is made of it. */
enum status tenant_change_commit(struct tenants *tenants, struct tenant_change_plan *plan);

/* CHANGED when the change wants another revision than this. */
enum status tenant_change_check_revision(const struct tenant_change *change, int64_t revision);

/* 1 to LIMIT_NAME_BYTES - 1 bytes of UTF-8 without control characters; else INVALID of `param`. */
enum status tenant_change_check_name(const char *param, struct slice name);

/* `text` fits: checked before. */
void tenant_change_copy(char *out, size_t capacity, struct slice text);
