#include "auth/tenants/tenant_change.h"

#include <stdio.h>

#include "auth/tenants/tenant_answer.h"
#include "config/base/utf8.h"

enum { DETAIL_BYTES_MAX = 2048 };

void tenant_change_plan_init(struct tenant_change_plan *plan, const struct tenant_change *change,
                             const char *type, const char *subject)
{
    *plan = (struct tenant_change_plan){.change = change, .type = type, .subject = subject};
    buffer_init(&plan->detail, DETAIL_BYTES_MAX);
}

static enum status commit_audit(struct tenants *tenants, struct tenant_change_plan *plan,
                                struct sqlite3 *connection)
{
    const struct audit_actor *actor = plan->change->actor;
    struct audit_row row = {.at_us = clock_wall_us(tenants->clock)};
    TRY(plan->detail.status);
    ASSERT(plan->detail.length < sizeof row.detail);
    snprintf(row.type, sizeof row.type, "%s", plan->type);
    snprintf(row.actor_key_id, sizeof row.actor_key_id, "%s", actor->key_id);
    snprintf(row.actor_subject, sizeof row.actor_subject, "%s", actor->subject);
    snprintf(row.peer, sizeof row.peer, "%s", actor->peer);
    snprintf(row.request_id, sizeof row.request_id, "%s", actor->request_id);
    snprintf(row.subject, sizeof row.subject, "%s", plan->subject);
    tenant_change_copy(row.detail, sizeof row.detail, buffer_slice(&plan->detail));
    return tenant_rows_audit(connection, &row);
}

static enum status commit_rows(struct tenants *tenants, struct tenant_change_plan *plan,
                               struct sqlite3 *connection)
{
    const struct tenant_change *change = plan->change;
    struct slice answer = {0};
    TRY(plan->rows(connection, plan->context));
    TRY(commit_audit(tenants, plan, connection));
    if (change->answer == NULL)
        return STATUS_OK;
    TRY(change->answer(change->context, &answer));
    if (change->request == NULL)
        return STATUS_OK;
    return tenant_answer_keep(tenants, connection, change, answer);
}

enum status tenant_change_commit(struct tenants *tenants, struct tenant_change_plan *plan)
{
    struct sqlite3 *connection;
    enum status status = store_begin(tenants->store, &connection);
    if (status == STATUS_OK) {
        status = commit_rows(tenants, plan, connection);
        bool is_kept = status == STATUS_OK && !plan->change->is_dry_run;
        enum status ended = store_end(tenants->store, is_kept);
        status = status != STATUS_OK ? status : ended;
    }
    buffer_deinit(&plan->detail);
    return status;
}

enum status tenant_change_check_revision(const struct tenant_change *change, int64_t revision)
{
    bool is_wanted = change->revision_count == 0;
    for (size_t i = 0; i < change->revision_count; i++)
        is_wanted = is_wanted || change->revisions[i] == revision;
    if (!is_wanted)
        FAIL_PARAM(STATUS_CHANGED, "if-match", "the revision is %lld now: read it again",
                   (long long)revision);
    return STATUS_OK;
}

enum status tenant_change_check_name(const char *param, struct slice name)
{
    if (name.length == 0 || name.length >= LIMIT_NAME_BYTES)
        FAIL_PARAM(STATUS_INVALID, param, "%s must have 1 to %d bytes", param,
                   LIMIT_NAME_BYTES - 1);
    if (!utf8_is_valid(name.bytes, name.length))
        FAIL_PARAM(STATUS_INVALID, param, "%s must be UTF-8", param);
    for (size_t i = 0; i < name.length; i++) {
        if ((unsigned char)name.bytes[i] < 0x20 || name.bytes[i] == 0x7f)
            FAIL_PARAM(STATUS_INVALID, param, "%s must not hold control characters", param);
    }
    return STATUS_OK;
}

void tenant_change_copy(char *out, size_t capacity, struct slice text)
{
    ASSERT(text.length < capacity);
    if (text.length > 0)
        memcpy(out, text.bytes, text.length);
    out[text.length] = '\0';
}
