#include "auth/tenants/tenant_view.h"

#include "auth/credential/principal.h"
#include "auth/tenants/tenant_group_load.h"
#include "auth/tenants/tenant_records.h"
#include "config/base/mem.h"

struct tenant_view_plan {
    struct tenant_view_row *rows;
    size_t row_count;
    struct tenant_view *views; /* of all tenants, in the directory's order */
    size_t view_count;
};

/* Collects the domains of the rows that grant a prompt to the tenant or to its group, each once. A
 * list has at most LIMIT_PROMPTS_VISIBLE domains. */
static enum status collect(const struct tenant_view_row *rows, size_t count,
                           const struct tenant *tenant, const uint8_t names[2][16],
                           struct tenant_view *view)
{
    uint8_t found[LIMIT_PROMPTS_VISIBLE][16];
    uint32_t found_count = 0;
    bool has_group = tenant->group[0] != '\0';
    for (size_t i = 0; i < count; i++) {
        if (memcmp(rows[i].who, names[0], 16) != 0 &&
            (!has_group || memcmp(rows[i].who, names[1], 16) != 0))
            continue;
        uint32_t at = 0;
        while (at < found_count && memcmp(found[at], rows[i].domain, 16) != 0)
            at++;
        if (at == LIMIT_PROMPTS_VISIBLE)
            FAIL_PARAM(STATUS_LIMIT, "group",
                       "the tenant %s would see more than %d published prompts", tenant->id,
                       LIMIT_PROMPTS_VISIBLE);
        if (at == found_count)
            memcpy(found[found_count++], rows[i].domain, 16);
    }
    if (found_count == 0)
        return STATUS_OK;
    view->published = mem_alloc(found_count * sizeof found[0]);
    if (view->published == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for what a tenant may read");
    memcpy(view->published, found, found_count * sizeof found[0]);
    view->published_count = found_count;
    return STATUS_OK;
}

static enum status make_under(const struct tenants *tenants, const struct tenant_view_row *rows,
                              size_t count, const struct tenant *tenant, const uint8_t own[16],
                              const struct tenant_group_record *group, struct tenant_view *out)
{
    uint8_t names[2][16]; /* the tenant's own name, and its group's */
    *out = (struct tenant_view){0};
    memcpy(names[0], own, 16);
    if (tenant->group[0] != '\0') {
        TRY(tenant_records_name(tenants, "group:", tenant->group, names[1]));
        out->has_group = tenant_group_domain(tenants, group, tenant->group, out->group);
    }
    return collect(rows, count, tenant, names, out);
}

enum status tenant_view_make(const struct tenants *tenants, const struct tenant *tenant,
                             const uint8_t own[16], const struct tenant_group_record *group,
                             struct tenant_view *out)
{
    return make_under(tenants, tenants->grants, tenants->grant_count, tenant, own, group, out);
}

void tenant_view_free(struct tenant_view *view)
{
    mem_free(view->published);
    *view = (struct tenant_view){0};
}

/* --- all of them at once --- */

static enum status plan_rows(const struct tenants *tenants, const struct tenant_view_grant *grants,
                             struct tenant_view_plan *plan)
{
    for (size_t i = 0; i < plan->row_count; i++) {
        const struct tenant_view_grant *grant = &grants[i];
        bool is_group = grant->group[0] != '\0';
        ASSERT(is_group != (grant->tenant_id[0] != '\0'));
        TRY(tenant_records_name(tenants, is_group ? "group:" : "domain:",
                                is_group ? grant->group : grant->tenant_id, plan->rows[i].who));
        memcpy(plan->rows[i].domain, grant->domain, sizeof grant->domain);
    }
    return STATUS_OK;
}

static enum status plan_views(const struct tenants *tenants, struct tenant_view_plan *plan)
{
    for (const struct tenant_record *record = tenants->first; record != NULL; record = record->next)
        TRY(make_under(tenants, plan->rows, plan->row_count, &record->tenant, record->domain, NULL,
                       &plan->views[plan->view_count++]));
    return STATUS_OK;
}

enum status tenant_view_plan(struct tenants *tenants, const struct tenant_view_grant *grants,
                             size_t count, struct tenant_view_plan **out)
{
    *out = NULL;
    if (count > LIMIT_GRANTS)
        FAIL(STATUS_LIMIT, "published prompts are granted %zu times; at most %d times in all",
             count, LIMIT_GRANTS);
    enum status status = STATUS_NO_MEMORY;
    struct tenant_view_plan *plan = mem_zalloc(1, sizeof *plan);
    if (plan == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for grants");
    plan->row_count = count;
    plan->rows = mem_zalloc(count + 1, sizeof *plan->rows);
    plan->views = mem_zalloc(tenants->by_id.count + 1, sizeof *plan->views);
    if (plan->rows == NULL || plan->views == NULL)
        FAIL_OUT(STATUS_NO_MEMORY, "no memory for grants");
    TRY_OUT(plan_rows(tenants, grants, plan));
    TRY_OUT(plan_views(tenants, plan));
    *out = plan;
    return STATUS_OK;
out:
    tenant_view_forget(plan);
    return status;
}

/* The old views and grants go into the plan and are freed with it, outside of the lock. */
void tenant_view_commit(struct tenants *tenants, struct tenant_view_plan *plan)
{
    size_t at = 0;
    pthread_rwlock_wrlock(&tenants->memory);
    for (struct tenant_record *record = tenants->first; record != NULL; record = record->next) {
        struct tenant_view old = record->view;
        record->view = plan->views[at];
        plan->views[at++] = old;
    }
    pthread_rwlock_unlock(&tenants->memory);
    ASSERT(at == plan->view_count);
    struct tenant_view_row *old = tenants->grants;
    tenants->grants = plan->rows;
    tenants->grant_count = plan->row_count;
    plan->rows = old;
    tenant_view_forget(plan);
}

void tenant_view_forget(struct tenant_view_plan *plan)
{
    if (plan == NULL)
        return;
    for (size_t i = 0; i < plan->view_count; i++)
        tenant_view_free(&plan->views[i]);
    mem_free(plan->views);
    mem_free(plan->rows);
    mem_free(plan);
}

/* --- a request's --- */

static void fill_add(struct principal *out, const uint8_t domain[16])
{
    memcpy(out->visible[out->visible_count++], domain, 16);
}

void tenant_view_fill(const struct tenant_record *record, struct principal *out)
{
    const struct tenant_view *view = &record->view;
    bool is_shared = record->tenant.share == TENANT_SHARE_GROUP && view->has_group;
    out->cache_share = record->tenant.cache_share;
    out->visible_count = 0;
    for (uint32_t i = 0; i < view->published_count; i++)
        fill_add(out, view->published[i]);
    out->visible_public = out->visible_count;
    out->visible_group = is_shared ? 1 : 0;
    if (is_shared)
        fill_add(out, view->group);
    fill_add(out, record->domain);
    memcpy(out->domain, is_shared ? view->group : record->domain, sizeof out->domain);
}
